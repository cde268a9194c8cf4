// A page for one record and one message: read what is asked, enter the record, consent, report.
// The link to it names the round, a token and the helper after the “#”, which no server is sent.

import { fromHex, hex, joined, label, sha256, text } from "./report-bytes.js";
import { Refusal, decode, require } from "./report-plan.js";
import { asked, codes, fields } from "./report-record.js";
import { Plan, helperKey, report } from "./report.js";

const WAIT = 25; // seconds that an answer may take
const PAUSE = 2000; // milliseconds, after an answer that never came
const at = (id) => document.getElementById(id);

const link = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));

// -- what this browser keeps: an identity and a report for each round -------------------------------

function opened() {
  return new Promise((resolve, reject) => {
    const asking = indexedDB.open("dhdmm", 1);
    asking.onupgradeneeded = () => asking.result.createObjectStore("rounds", { keyPath: "round" });
    asking.onsuccess = () => resolve(asking.result);
    asking.onerror = () => reject(asking.error);
  });
}

async function stored(mode, act) {
  const database = await opened();
  return new Promise((resolve, reject) => {
    const transaction = database.transaction("rounds", mode, { durability: "strict" });
    const asking = act(transaction.objectStore("rounds"));
    transaction.oncomplete = () => resolve(asking.result);
    transaction.onabort = () => reject(transaction.error);
  });
}

const rounds = () => stored("readonly", (store) => store.getAll());
const kept = () => stored("readonly", (store) => store.get(link.round));
const keep = (seat) => stored("readwrite", (store) => store.put(seat));

async function newSeat() {
  const pair = await crypto.subtle.generateKey("Ed25519", false, ["sign", "verify"]);
  const seat = { round: link.round, pair, report: null, delivered: false };
  await keep(seat);
  return seat;
}

// -- what is asked of the leader ----------------------------------------------------------------------

async function signed(seat, method, path, body = new Uint8Array(0)) {
  const key = new Uint8Array(await crypto.subtle.exportKey("raw", seat.pair.publicKey));
  const digest = await sha256(body);
  const zero = Uint8Array.of(0);
  const head = [text(method), zero, text(path), zero, text(String(body.length)), zero];
  const said = joined(label("dhdmm1 request"), ...head, digest);
  const signature = new Uint8Array(await crypto.subtle.sign("Ed25519", seat.pair.privateKey, said));
  const headers = { "dhdmm-key": hex(key), "dhdmm-signature": hex(signature) };
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

const route = (rest) => `/v1/rounds/${link.round}/${rest}`;

async function enrol(seat, name) {
  const key = hex(new Uint8Array(await crypto.subtle.exportKey("raw", seat.pair.publicKey)));
  const body = JSON.stringify({ token: link.token, name, key });
  const headers = { "content-type": "application/json" };
  const answer = await ask(route("enrolment"), { method: "POST", headers, body });
  if (!answer.ok) await refuse(answer);
}

/** The terms of the round, once enough have enrolled. */
async function offer(seat) {
  for (;;) {
    const answer = await signed(seat, "GET", route(`seat?wait=${WAIT}`));
    if (answer.status !== 409) return decode(await bytesOf(answer));
    told("You are enrolled. Waiting until all have: this page has to stay open.");
  }
}

// -- the course of it -----------------------------------------------------------------------------

async function begin() {
  require(link.round && link.token && link.helper, "Open the whole link of your invitation: it names the round, you and the helper.");
  const seat = await kept();
  if (seat?.delivered) return finished();
  const headers = { "dhdmm-token": link.token };
  const answer = seat ? await signed(seat, "GET", route("draft")) : await ask(route("draft"), { headers });
  const draft = new Plan(await bytesOf(answer.status === 401 && seat ? await ask(route("draft"), { headers }) : answer));
  requireHelper(draft);
  if (seat?.report) return deliver(seat);
  await show(draft);
  at("record").addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(() => takePart(draft, codes(draft.study, at("record"))));
  });
}

/** The invitation says who the helper is; the leader cannot be believed in that. */
function requireHelper(plan) {
  const same = hex(plan.helper) === link.helper;
  require(same, "The round has another helper than your invitation. Ask whoever invited you.");
}

async function takePart(draft, record) {
  at("record").hidden = true;
  at("course").hidden = false;
  const seat = (await kept()) ?? (await newSeat());
  told("Enrolling.");
  await enrol(seat, at("name").value.trim() || "a browser");
  const terms = await offer(seat);
  require(terms.get("state") !== "aborted", `The round was aborted: ${terms.get("reason")}. Nothing was sent.`);
  const plan = draft.under(terms.get("terms"));
  requireHelper(plan);
  told("Measuring, and adding noise.");
  const roundId = fromHex(link.round);
  const session = await plan.session(roundId);
  const key = await helperKey(await bytesOf(await signed(seat, "GET", route(`message?wait=${WAIT}`))), plan, session);
  const position = terms.get("place").get("position");
  seat.report = await report(plan, session, position, key, record, seat.pair.privateKey);
  seat.study = plan.study.study;
  await keep(seat); // before it leaves: after a restart these very bytes are sent again
  await deliver(seat);
}

async function deliver(seat) {
  at("course").hidden = false;
  told("Sending your report.");
  await bytesOf(await signed(seat, "POST", route("message"), seat.report));
  seat.delivered = true;
  await keep(seat);
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
  at("cost").textContent = epsilon ? `ε = ${epsilon} at δ = ${delta}` : `ρ = ${rho}`;
  at("participants").textContent = `at least ${participants.toLocaleString("en")}`;
  at("size").textContent = `${Math.ceil((plan.strategy.rows * plan.modulusBits) / 8000 + 1.3)} kB`;
  at("safe").textContent =
    `Nobody finds out what you enter while one of the two servers is honest: the leader, at ${location.host}, or the` +
    ` helper, whose key begins with ${link.helper.slice(0, 16)}. The other one and ${corrupt.toLocaleString("en")} of the participants may` +
    " work together against you. This page was sent by the leader: what it does is what the leader's page does.";
  const tables = study.workload.map((item) => {
    const line = document.createElement("li");
    const name = document.createElement("strong");
    name.textContent = item.name;
    line.append(name, `: ${asked(item)}`);
    return line;
  });
  at("tables").replaceChildren(...tables);
  at("fields").replaceChildren(...fields(study));
  const before = (await rounds()).filter(({ delivered }) => delivered).length;
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
