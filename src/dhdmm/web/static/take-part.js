// A page for one record and one message: read what is asked, enter the record, consent, report.
// The link to it has, after the “#”, which no server is sent: the key of whoever is invited, and the keys of the
// helper and of the registrar, who vouches for the list of participants.

import { fromHex, hex, joined, label, sha256, text } from "./report-bytes.js";
import { Refusal, decode, require } from "./report-plan.js";
import { asked, codes, fields } from "./report-record.js";
import { Plan, helperKey, report, requireVouched } from "./report.js";

const WAIT = 25; // seconds that an answer may take
const PAUSE = 2000; // milliseconds, after an answer that never came
const at = (id) => document.getElementById(id);

const link = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));

// -- what this browser keeps: the report of each round, before it is sent ----------------------------

function opened() {
  return new Promise((resolve, reject) => {
    const asking = indexedDB.open("dhdmm", 1);
    asking.onupgradeneeded = () => asking.result.createObjectStore("reports", { keyPath: "round" });
    asking.onsuccess = () => resolve(asking.result);
    asking.onerror = () => reject(asking.error);
  });
}

async function stored(mode, act) {
  const database = await opened();
  return new Promise((resolve, reject) => {
    const transaction = database.transaction("reports", mode, { durability: "strict" });
    const asking = act(transaction.objectStore("reports"));
    transaction.oncomplete = () => resolve(asking.result);
    transaction.onabort = () => reject(transaction.error);
  });
}

const reports = () => stored("readonly", (store) => store.getAll());
const keep = (report) => stored("readwrite", (store) => store.put(report));

// -- who this is ------------------------------------------------------------------------------------

const PKCS8 = fromHex("302e020100300506032b657004220420"); // RFC 8410: an Ed25519 key follows

async function identityOf(seed) {
  const encoded = joined(PKCS8, fromHex(seed));
  const known = await crypto.subtle.importKey("pkcs8", encoded, "Ed25519", true, ["sign"]);
  const { x } = await crypto.subtle.exportKey("jwk", known);
  const base64 = x.replaceAll("-", "+").replaceAll("_", "/");
  return { key: known, public: Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0)) };
}

// -- what is asked of the leader ----------------------------------------------------------------------

async function signed(identity, method, path, body = new Uint8Array(0)) {
  const digest = await sha256(body);
  const zero = Uint8Array.of(0);
  const head = [text(method), zero, text(path), zero, text(String(body.length)), zero];
  const said = joined(label("dhdmm1 request"), ...head, digest);
  const signature = new Uint8Array(await crypto.subtle.sign("Ed25519", identity.key, said));
  const headers = { "dhdmm-key": hex(identity.public), "dhdmm-signature": hex(signature) };
  if (body.length) headers["dhdmm-digest"] = hex(digest);
  return ask(path, { method, headers, ...(body.length ? { body } : {}) });
}

/** The answer; where none came, or the server is busy, the question again. */
async function ask(path, options) {
  for (;;) {
    const answer = await fetch(path, { ...options, cache: "no-store" }).catch(() => null);
    if (answer !== null && answer.status !== 503 && answer.status !== 429) return answer;
    told("The leader does not answer; trying again.");
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

async function bytesOf(answer) {
  if (!answer.ok) await refuse(answer);
  return new Uint8Array(await answer.arrayBuffer());
}

async function refuse(answer) {
  const { detail, hint } = await answer.json().catch(() => ({}));
  throw new Refusal([detail ?? `The leader answers ${answer.status}.`, hint].filter(Boolean).join(" "));
}

const route = (round, rest) => `/v1/rounds/${round}/${rest}`;

/** The newest round that this identity has a seat in and that is not over. */
async function findRound(identity) {
  const answer = await signed(identity, "GET", "/v1/rounds?running=true");
  if (!answer.ok) await refuse(answer);
  for (const { round, threat_model: model } of await answer.json()) {
    if (model === "two-servers" && (await signed(identity, "GET", route(round, "seat"))).ok) return round;
  }
  throw new Refusal("There is no round for you now: it has not begun, or it is over.");
}

// -- the course of it -------------------------------------------------------------------------------

async function begin() {
  const whole = [link.key, link.helper, link.registrar].every((part) => /^[0-9a-f]{64}$/.test(part));
  require(whole, "Open the whole link of your invitation: it says who you are, who helps and who made the list.");
  const identity = await identityOf(link.key);
  const round = await findRound(identity);
  const kept = (await reports()).find((report) => report.round === round);
  if (kept?.delivered) return finished();
  if (kept) return deliver(identity, kept);
  const draft = new Plan(await bytesOf(await signed(identity, "GET", route(round, "draft"))));
  requireHelper(draft);
  await draft.requireBrowser();
  await show(draft);
  at("record").addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(() => takePart(identity, round, draft, codes(draft.study, at("record"))));
  });
}

/** The invitation says who the helper is; the leader cannot be believed in that. */
function requireHelper(plan) {
  const same = hex(plan.helper) === link.helper;
  require(same, "The round has another helper than your invitation. Ask whoever invited you.");
}

async function takePart(identity, round, draft, record) {
  at("record").hidden = true;
  at("course").hidden = false;
  told("Measuring, and adding noise.");
  const terms = decode(await bytesOf(await signed(identity, "GET", route(round, "seat"))));
  require(terms.get("state") !== "aborted", `The round was aborted: ${terms.get("reason")}. Nothing was sent.`);
  const plan = draft.under(terms.get("terms"));
  requireHelper(plan);
  const place = terms.get("place");
  await requireVouched(place, plan, fromHex(link.registrar));
  const session = await plan.session(fromHex(round));
  const message = await bytesOf(await signed(identity, "GET", route(round, `message?wait=${WAIT}`)));
  const key = await helperKey(message, plan, session);
  const bytes = await report(plan, session, place.get("position"), key, record, identity.key);
  const made = { round, study: plan.study.study, bytes, delivered: false };
  await keep(made); // before it leaves: after a restart these very bytes are sent again
  await deliver(identity, made);
}

async function deliver(identity, made) {
  at("course").hidden = false;
  told("Sending your report.");
  await bytesOf(await signed(identity, "POST", route(made.round, "message"), made.bytes));
  await keep({ ...made, delivered: true });
  finished();
}

function finished() {
  at("record").hidden = true;
  at("course").hidden = false;
  at("title").textContent = "Thank you";
  told("Your report has arrived. You may close this page: nothing more is asked of you.");
}

// -- what is seen ------------------------------------------------------------------------------------

async function show(plan) {
  const { study, participants, corrupt } = plan;
  const { epsilon, delta, rho } = study.privacy;
  at("title").textContent = `Will you take part in “${study.study}”?`;
  at("cost").textContent = epsilon ? `ε = ${epsilon}` : `ρ = ${rho}`;
  at("delta").textContent = epsilon ? `at δ = ${delta.toExponential()}` : "";
  at("participants").textContent = `at least ${participants.toLocaleString("en")}`;
  at("size").textContent = `${Math.ceil((plan.strategy.rows * plan.modulusBits) / 8000 + 1.3)} kB`;
  at("odds").textContent = epsilon ? `Whatever somebody believes about you, the result changes the odds by a factor of at most ${Math.exp(epsilon).toPrecision(3)}.` : "";
  const others = corrupt === 1 ? "one participant" : `${corrupt.toLocaleString("en")} participants`;
  at("safe").textContent =
    `Nobody finds out what you enter while one of two servers is honest: the leader, ${location.host}, or the helper,` +
    ` whose key begins with ${link.helper.slice(0, 8)}. The other one and ${others} may work together against you.` +
    " The leader also sent you this page, and you rely on it for that. A program of your own, such as dhdmm join, needs no such trust.";
  const tables = study.workload.map((item) => {
    const line = document.createElement("li");
    const name = document.createElement("strong");
    name.textContent = item.name;
    line.append(name, `: ${asked(item)}`);
    return line;
  });
  at("tables").replaceChildren(...tables);
  at("fields").replaceChildren(...fields(study));
  const before = (await reports()).filter(({ delivered }) => delivered).length;
  at("before").textContent = before ? `This browser has reported in ${before} ${before === 1 ? "round" : "rounds"} before; what they cost adds up.` : "";
  at("record").hidden = false;
}

function told(words) {
  const list = at("said");
  if (list.lastElementChild?.textContent === words) return;
  const line = document.createElement("li");
  line.textContent = words;
  list.append(line);
}

async function attempt(act) {
  try {
    await act();
  } catch (error) {
    at("refused").hidden = false;
    at("refused").textContent = error instanceof Refusal ? error.message : `This did not work here: ${error.message ?? error}`;
    if (!(error instanceof Refusal)) throw error;
  }
}

attempt(begin);
