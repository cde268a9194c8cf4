// The study builder. What is typed here stays in this browser, except the text of the study itself:
// it goes to the server, which answers what it would give. Data is never sent, nor read.

import { addable, aggregationCard, attributeCard, groupingCard, objectiveCard, orderable, privacyCard, tableCard } from "./builder-cards.js";
import { columnsOf, newAttribute, newGrouping, newStudy, newTable, studyOf, textOfStudy } from "./builder-document.js";
import { clearMistakes, field, input, make, showMistake } from "./builder-fields.js";
import { facts, rows, summary } from "./builder-figures.js";

const PAUSE = 350; // milliseconds without a change before the study is sent
const KEPT = "dhdmm study"; // in this tab's storage, so that a reload loses nothing
const at = (id) => document.getElementById(id);

let study = newStudy();
let columns = [];
let written = ""; // the study file, as the server wrote it
let timer, running;

// ---- the form -----------------------------------------------------------------------------------

function render() {
  const focused = controls().indexOf(document.activeElement);
  at("name").replaceChildren(field("Name of the study", input(study, "name", changed, { id: "study-name", maxlength: 100 }), () => "study"));
  cards("attributes", study.attributes, attributeCard);
  cards("groupings", study.groupings, groupingCard);
  cards("tables", study.tables, tableCard);
  at("objective").replaceChildren(study.tables.length ? objectiveCard(study, changed, again) : "");
  at("privacy").replaceChildren(privacyCard(study, changed, again));
  at("aggregation").replaceChildren(aggregationCard(study, changed, again));
  at("columns").replaceChildren(...columns.filter((name) => !study.attributes.some((one) => one.name === name)).map(columnChip));
  at("columns-box").hidden = !at("columns").childElementCount;
  at("add-grouping").disabled = !study.attributes.length;
  at("add-ranges").disabled = at("add-quantiles").disabled = !orderable(study).length;
  at("add-sum").disabled = at("add-mean").disabled = !addable(study).length;
  controls()[focused]?.focus();
}

function cards(id, list, card) {
  at(id).replaceChildren(...list.map((entry) => card(study, entry, changed, again)));
}

function again() {
  render();
  changed();
}

const controls = () => [...at("form").querySelectorAll("input, select, textarea, button")];

function columnChip(name) {
  return make("button", { type: "button", class: "chip", onclick: () => addAttribute(name) }, `+ ${name}`);
}

function addAttribute(name) {
  study.attributes.push(newAttribute(name));
  again();
  at("attributes").lastElementChild.querySelector(name ? "textarea" : "input").focus();
}

function freshName(stem) {
  const taken = new Set([...study.tables, ...study.groupings].map((one) => one.name));
  let name = stem;
  for (let n = 2; taken.has(name); n += 1) name = `${stem} ${n}`;
  return name;
}

function addTable(kind, stem, more = {}) {
  study.tables.push({ ...newTable(kind, freshName(stem)), ...more });
  again();
  at("tables").lastElementChild.scrollIntoView({ block: "nearest" });
}

// ---- the server's opinion -----------------------------------------------------------------------

function changed() {
  sessionStorage.setItem(KEPT, JSON.stringify(study));
  running?.abort(); // what it would answer is of an older study
  at("state").textContent = "Checking …";
  clearTimeout(timer);
  timer = setTimeout(() => send(textOfStudy(study)), PAUSE);
}

/** Send the study's text; answers come one by one, and an older question's are not heard. */
async function send(text, whenRead = () => {}, tables = {}) {
  running?.abort();
  const mine = (running = new AbortController());
  at("state").textContent = "Checking …";
  at("figures").setAttribute("aria-busy", "true");
  try {
    const response = await fetch("/builder/figures", {
      method: "POST", body: JSON.stringify({ study: text, tables }), signal: mine.signal, headers: { "Content-Type": "application/json", Accept: "application/x-ndjson" },
    });
    if (!response.ok) return unavailable(await response.json().catch(() => ({})), response.status);
    for await (const answer of answersOf(response)) {
      if (mine.signal.aborted) return;
      if (answer.kind === "checked") { whenRead(answer); checked(answer); }
      if (answer.kind === "figures") figured(answer);
      if (answer.kind === "error") mistaken(answer);
    }
  } catch (error) {
    if (error.name !== "AbortError") unavailable({ detail: "The server does not answer." });
  }
}

async function* answersOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) yield JSON.parse(line);
  }
}

function checked(answer) {
  written = answer.yaml;
  clearMistakes();
  at("mistake").hidden = true;
  at("yaml").textContent = written;
  at("state").textContent = "Planning …";
  allow(true);
}

function figured(answer) {
  at("facts").replaceChildren(...facts(answer));
  at("items").replaceChildren(...rows(answer));
  at("summary").textContent = summary(answer);
  at("figures").hidden = false;
  at("figures").removeAttribute("aria-busy");
  at("promise").textContent = answer.privacy ?? "";
  at("state").textContent = "Up to date.";
}

function mistaken(answer) {
  const words = answer.hint ? `${answer.what} (${answer.hint})` : answer.what;
  clearMistakes();
  const control = showMistake(answer, words);
  const link = control && make("button", { type: "button", class: "plain", onclick: () => control.focus() }, "Go to the field");
  const where = answer.path ? `${answer.path}: ` : answer.line ? `line ${answer.line}: ` : "";
  at("mistake").replaceChildren(make("p", {}, control ? words : `${where}${words}`), link ?? "");
  at("mistake").hidden = false;
  at("state").textContent = "Not yet a study that can be planned.";
  allow(false);
}

function unavailable(problem, status) {
  if (status === 401) { window.location.assign("/sign-in?next=/builder"); return; }
  at("state").textContent = problem.detail ?? "The server refused.";
  allow(false);
}

function allow(yes) {
  for (const id of ["export", "start"]) at(id).disabled = !yes;
}

// ---- files --------------------------------------------------------------------------------------

function exportFile() {
  const link = make("a", { href: URL.createObjectURL(new Blob([written], { type: "application/yaml" })), download: "study.yaml" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** A study file fills the form, once the server has read it. */
function load(text, tables = {}) {
  send(text, (answer) => {
    study = studyOf(answer.form);
    sessionStorage.setItem(KEPT, JSON.stringify(study));
    render();
  }, tables);
}

/** A study file, and the tables that it names, chosen together. */
async function loadFiles(files) {
  const isTable = (file) => file.name.endsWith(".csv");
  const file = files.find((one) => !isTable(one));
  const tables = await Promise.all(files.filter(isTable).map(async (one) => [one.name, await one.text()]));
  if (file) load(await file.text(), Object.fromEntries(tables));
}

async function startRound() {
  const [file] = at("roster").files;
  const wanted = { study: written, tokens: Number(at("tokens").value) };
  at("start").disabled = true;
  at("started").textContent = "Making the draft that participants will consent to …";
  try {
    if (file) wanted.roster = JSON.parse(await file.text());
    const response = await fetch("/builder/start", {
      method: "POST", body: JSON.stringify(wanted), headers: { "Content-Type": "application/json" },
    });
    const answer = await response.json();
    if (!response.ok) throw new Error([answer.detail, answer.hint].filter(Boolean).join(": "));
    began(answer);
  } catch (error) {
    at("started").textContent = `No round was begun: ${error.message}`;
    at("start").disabled = false;
  }
}

function began(answer) {
  const said = [make("p", {}, make("a", { href: answer.place, id: "round" }, "Watch the round"))];
  if (answer.tokens.length) {
    const list = make("textarea", { id: "token-list", readonly: true, rows: Math.min(answer.tokens.length, 8) });
    list.value = answer.tokens.join("\n");
    said.unshift(make("label", { for: "token-list" }, "Enrolment tokens: one for each participant, shown only now"), list);
  }
  at("started").replaceChildren(...said);
}

// ---- beginning ----------------------------------------------------------------------------------

const ACTIONS = {
  "add-attribute": () => addAttribute(""),
  "add-columns": () => { for (const name of columns) if (!study.attributes.some((one) => one.name === name)) study.attributes.push(newAttribute(name)); again(); },
  "add-grouping": () => { study.groupings.push(newGrouping(freshName("groups"), study.attributes[0].name)); again(); },
  "add-by": () => addTable("by", "counts"),
  "add-singles": () => addTable("ways", "singles", { ways: "1" }),
  "add-pairs": () => addTable("ways", "pairs", { ways: "2" }),
  "add-ranges": () => addTable("ranges", "cumulative"),
  "add-sum": () => addTable("sum", "sum"),
  "add-mean": () => addTable("mean", "mean"),
  "add-quantiles": () => addTable("quantiles", "quantiles"),
  "add-persons": () => addTable("persons", "persons"),
  "add-coverage": () => addTable("coverage", "rows"),
  "add-sql": () => addTable("sql", "question"),
  "load-example": () => load(at("example").textContent),
  "load-text": () => load(at("text").value),
  "start-anew": () => { study = newStudy(); columns = []; render(); changed(); },
  export: exportFile,
  start: startRound,
};

for (const [id, action] of Object.entries(ACTIONS)) at(id).addEventListener("click", action);
at("csv").addEventListener("change", async ({ target }) => {
  const [file] = target.files;
  target.value = "";
  if (file) columns = await columnsOf(file);
  render();
});
at("study-file").addEventListener("change", async ({ target }) => {
  const files = [...target.files];
  target.value = "";
  await loadFiles(files);
});

const kept = sessionStorage.getItem(KEPT);
if (kept) study = JSON.parse(kept);
at("builder").hidden = false;
render();
if (kept) changed();
