// A participant of a round with two servers: one record, one message (docs/protocol.md, "Two servers").

import { bitsOf, counted, joined, label, packByBits, sha256, stream, text, u32 } from "./report-bytes.js";
import { KeyStream, sample } from "./report-noise.js";
import { Strategy, decode, encodeMap, entries, require } from "./report-plan.js";
import { missing, seal } from "./report-seal.js";

const [VERSION, HELPER_KEY, REPORT, TWO_SERVERS] = [1, 0x11, 0x12, 2];
const HEADER_BYTES = 38;
const SUITES = {
  "mlkem768-x25519": { number: 1, kem: "MLKEM768-X25519" },
  "x25519": { number: 2, kem: "X25519" },
};

/** A plan, or a draft of one, from its bytes. */
export class Plan {
  constructor(bytes) {
    this.bytes = bytes;
    this.encoded = entries(bytes);
    const field = (name) => {
      require(this.encoded.has(name), `The plan does not say its ${name}.`);
      return decode(this.encoded.get(name));
    };
    require(field("version") === 2, "The plan is of another format than this page knows.");
    this.study = JSON.parse(new TextDecoder().decode(field("study")));
    require(this.study.aggregation.threat_model === "two-servers", "This page is for rounds with two servers.");
    require((this.study.aggregation.validation ?? "none") === "none", "This page makes no proofs of inputs.");
    this.strategy = new Strategy(field("strategy"));
    this.participants = field("participants");
    this.roster = field("roster");
    this.helper = field("helper");
    this.rho = field("rho").map(BigInt);
    this.variance = field("variance").map(BigInt);
    this.modulusBits = BigInt(field("modulus")).toString(2).length - 1;
    this.sumBits = bitsOf(field("sum_bits"));
    require(this.sumBits.length === this.strategy.rows, "The plan does not say how long each sum is.");
    require(this.sumBits.every((bits) => bits <= this.modulusBits), "The plan's modulus does not hold its sums.");
    this.minimumSurvivors = field("minimum_survivors");
    this.corrupt = field("corrupt");
    this.suite = SUITES[this.study.aggregation.sealing ?? "mlkem768-x25519"];
  }

  /** The plan of a round: this draft under the terms of an offer. */
  under(terms) {
    const added = entries(terms);
    require(!added.has("study") && !added.has("strategy"), "The terms of the round are not what they should be.");
    for (const name of ["study", "strategy"]) added.set(name, this.encoded.get(name));
    return new Plan(encodeMap(added));
  }

  async session(roundId) {
    const digest = await sha256(text("dhdmm plan"), this.bytes);
    return sha256(text("dhdmm session 1"), digest, roundId, Uint8Array.of(TWO_SERVERS), this.roster);
  }

  /** Before anybody enters a record: not every browser has all that sealing takes. */
  async requireBrowser() {
    const lacking = await missing(this.suite.kem);
    const words =
      `This browser cannot take part: it has no ${lacking.join(" and no ")}, by which half of a report is sealed for the helper.` +
      " Nothing was sent. Try another browser or a newer version, or take part with dhdmm join.";
    require(lacking.length === 0, words);
  }

  /** A record that this column belongs to costs ‖a‖²/2hσ², and the plan may not state less. */
  requireHonestCost(column) {
    const squared = column.reduce((sum, entry) => sum + entry * entry, 0n);
    const honest = BigInt(this.minimumSurvivors - this.corrupt);
    require(honest > 0n, "The plan counts on nobody's noise.");
    const [rho, per] = this.rho;
    const [variance, unit] = this.variance;
    const costs = squared * unit * per <= 2n * honest * variance * rho;
    require(costs, "The plan states a smaller cost of privacy than it has.");
  }
}

/** The helper's key of this round, if the helper that the plan names signed it. */
export async function helperKey(message, plan, session) {
  const body = opened(message, HELPER_KEY, session);
  const length = new DataView(body.buffer, body.byteOffset).getUint32(0);
  const [key, signature] = [body.subarray(4, 4 + length), body.subarray(4 + length)];
  require(signature.length === 64, "The helper's key is not what it should be.");
  const said = joined(label("dhdmm1 sealing"), session, Uint8Array.of(plan.suite.number), key);
  const identity = await crypto.subtle.importKey("raw", plan.helper, "Ed25519", false, ["verify"]);
  const holds = await crypto.subtle.verify("Ed25519", identity, signature, said);
  require(holds, "The helper has not signed the key that secrets would be sealed for.");
  return key;
}

/** The list of participants must be the registrar's: with one of the leader's making, all others could be the leader. */
export async function requireVouched(place, plan, registrar) {
  const [signature, edition] = [place?.get("signature"), place?.get("edition")];
  require(signature, "Nobody vouches for the list of participants.");
  const named = edition ? joined(text("dhdmm2 roster"), ascii(edition)) : text("dhdmm1 roster");
  const identity = await crypto.subtle.importKey("raw", registrar, "Ed25519", false, ["verify"]);
  const holds = await crypto.subtle.verify("Ed25519", identity, signature, joined(named, plan.roster));
  require(holds, "The list of participants is not the one of your invitation's registrar.");
  const fits = !edition || edition[2] === null || edition[2] === plan.study.study;
  require(fits, "The list of participants is for another study.");
}

/** JSON in ASCII. */
const ascii = (value) =>
  text(JSON.stringify(value).replace(/[^\x00-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`));

/** The one message of the participant at `position`, whose record has these codes. */
export async function report(plan, session, position, sealingKey, codes, signingKey) {
  const seat = u32(position);
  const seed = crypto.getRandomValues(new Uint8Array(32));
  const vector = await leaderShare(await noisy(plan, codes), plan, seed, session, position);
  const sealed = await seal(plan.suite.kem, sealingKey, joined(label("dhdmm1 sealed"), session, seat), seed);
  const hashes = joined(await sha256(sealed), await sha256(vector));
  const statement = joined(label("dhdmm1 report"), session, seat, hashes);
  const signature = new Uint8Array(await crypto.subtle.sign("Ed25519", signingKey, statement));
  const header = joined(Uint8Array.of(VERSION, REPORT), session, seat);
  return joined(header, counted(sealed), counted(vector), signature);
}

/** A′x + N_Z(0, σ_c²)^k for one record. */
async function noisy(plan, codes) {
  const column = plan.strategy.column(codes);
  plan.requireHonestCost(column);
  const noise = await sample(column.length, plan.variance, await KeyStream.fresh());
  return column.map((value, i) => value + noise[i]);
}

/** share_L = y − share_H, packed: what is left when the stream of the seed is taken away. */
export async function leaderShare(values, { modulusBits, sumBits }, seed, session, position) {
  const extracted = await hmac(new Uint8Array(32), seed);
  const expanded = await hmac(extracted, joined(label("dhdmm1 split"), session, u32(position), Uint8Array.of(1)));
  const helpers = await stream(expanded, values.length, modulusBits);
  return packByBits(values.map((value, i) => value - helpers[i]), sumBits);
}

async function hmac(secret, message) {
  const key = await crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", key, message));
}

/** What a message of this type says after its header. */
function opened(message, type, session) {
  const fits = message[0] === VERSION && message[1] === type && session.every((byte, i) => message[2 + i] === byte);
  require(message.length >= HEADER_BYTES && fits, "The message is not one of this round.");
  return message.subarray(HEADER_BYTES);
}
