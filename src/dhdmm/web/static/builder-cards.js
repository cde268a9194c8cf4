// One card for each attribute, grouping and table, and the two cards on privacy and participants.

import { TYPES } from "./builder-document.js";
import { chips, choice, field, input, make, path } from "./builder-fields.js";

const remove = (list, entry, render) =>
  make("button", { type: "button", class: "plain", onclick: () => { list.splice(list.indexOf(entry), 1); render(); } }, "Remove");

export function attributeCard(study, entry, changed, render) {
  const at = (...keys) => () => path("schema", entry.name, ...keys);
  const name = input(entry, "name", changed);
  const before = entry.name;
  name.addEventListener("change", () => { rename(study, before, entry.name); render(); });
  const { fields, shape } = TYPES[entry.type];
  const domain = fields.map(([label, key, properties, keys, hint]) =>
    field(label, input(entry, key, changed, properties), at(...keys), hint));
  return make("li", { class: "card" },
    make("div", { class: "row" },
      field("Attribute", name, at()),
      field("Type", choice(entry, "type", Object.entries(TYPES).map(([type, { words }]) => [type, words]), render), at("type")),
      field("If missing, called", input(entry, "missing", changed, { size: 10, placeholder: "never missing" }), at("missing")),
      remove(study.attributes, entry, render)),
    make("div", { class: shape }, domain));
}

/** Tables and groupings follow an attribute to its new name. */
function rename(study, before, after) {
  if (study.attributes.filter((entry) => entry.name === before).length) return;
  const swap = (names) => names.forEach((name, i) => { if (name === before) names[i] = after; });
  for (const table of study.tables) {
    swap(table.by); swap(table.totals);
    if (table.of === before) table.of = after;
  }
  for (const entry of [...study.groupings]) if (entry.of === before) entry.of = after;
}

export function groupingCard(study, entry, changed, render) {
  const at = (...keys) => () => path("groupings", entry.name, ...keys);
  const name = input(entry, "name", changed);
  const before = entry.name;
  name.addEventListener("change", () => { rename({ ...study, groupings: [], attributes: study.groupings }, before, entry.name); render(); });
  const head = make("div", { class: "row" }, field("Grouping", name, at()));
  const card = make("li", { class: "card" }, head);
  if (entry.kept) {
    card.append(make("p", { class: "small soft" }, entry.kept.levels
      ? `Levels of ${entry.of} from a table: ${entry.kept.levels.join(", ")}.` : `Sets of ${entry.of} by conditions, kept as they are in the file.`));
  } else {
    const names = study.attributes.map((attribute) => [attribute.name, attribute.name]);
    const units = TYPES[study.attributes.find((one) => one.name === entry.of)?.type]?.units;
    const forms = [["edges", "bins between edges"], ["sets", "named sets of values"], ...(units ? [["unit", "unit of the calendar"]] : [])];
    head.append(
      field("Of", choice(entry, "of", names, render), at("of")),
      field("By", choice(entry, "form", forms, render), at()));
    if (entry.form === "unit") head.append(field("Unit", choice(entry, "unit", units.map((unit) => [unit, unit]), render), at("by")));
    else card.append(entry.form === "edges"
      ? field("Edges", input(entry, "edges", changed, { placeholder: "17, 25, 35, 45, 55, 65, 92" }), at("edges"),
        "Each bin is without its upper edge. first:last:step works, too.")
      : field("Sets", input(entry, "sets", changed, { rows: 3, placeholder: "north: 1, 2\nall others: *" }), at("sets"),
        "A set a line; * stands for the rest."));
  }
  head.append(remove(study.groupings, entry, render));
  return card;
}

const KINDS = [["by", "counts by"], ["ways", "every table of some attributes"], ["ranges", "ranges of values"], ["sum", "the sum of"], ["mean", "the mean of"], ["quantiles", "median, quantiles of"], ["persons", "different persons"], ["total", "the total"], ["coverage", "rows left out"], ["sql", "SQL"]];
const REPRESENTATIVES = [["", "its midpoint"], ["lower", "its lower edge"], ["upper", "its upper edge"]];
const FOLLOWING = ["day", "week", "month", "quarter", "year"]; // units of dates that have an order

/** What can be added up, and what has an order: names of attributes and groupings. */
export function addable(study) {
  return study.attributes.filter((one) => ["measure", "integer", "number"].includes(one.type)).map((one) => one.name);
}

export function orderable(study) {
  const units = (one) => (TYPES[one.type].units ?? []).filter((unit) => FOLLOWING.includes(unit) && !(unit === "day" && one.type === "date"));
  return [
    ...study.attributes.filter((one) => TYPES[one.type].ordered).map((one) => one.name),
    ...study.groupings.filter((one) => one.kept === null && one.form !== "sets").map((one) => one.name),
    ...study.attributes.flatMap((one) => units(one).map((unit) => `${unit} of ${one.name}`)),
  ];
}
const RANGES = [["prefix", "cumulative: up to each value"], ["all", "every interval"], ["width", "windows of a width"]];

export function tableCard(study, entry, changed, render) {
  const number = () => study.tables.indexOf(entry);
  const at = (...keys) => () => path("workload", number(), ...keys);
  const counted = study.attributes.filter((one) => !TYPES[one.type].measured);
  const levels = study.groupings.flatMap((one) => (one.kept?.levels ?? []).map((name) => ({ name })));
  const known = [...counted, ...study.groupings.filter((one) => !one.kept?.levels), ...levels].map((one) => one.name).filter(Boolean);
  const names = [...known, ...entry.by.filter((name) => !known.includes(name))]; // such as a week of a date
  const ofWhat = (list, ...keys) => field("Of", choice(entry, "of", list.map((name) => [name, name]), render), at(...keys, "of"),
    list.length ? "" : `Add ${entry.kind === "sum" || entry.kind === "mean" ? "a number or an amount" : "a number or a date"} first.`);
  const forEach = (list, ...keys) => chips("For each", list, entry.by, at(...keys, "by"), () => { changed(); render(); });
  const others = () => {
    const own = entry.by.indexOf(entry.of);
    if (own >= 0) entry.by.splice(own, 1);
    return names.filter((name) => name !== entry.of);
  };
  const kept = entry.kind === "kept";
  const head = make("div", { class: "row" },
    field("Table", input(entry, "name", changed), at("name")),
    kept ? null : field("Asks for", choice(entry, "kind", KINDS, render), at()),
    remove(study.tables, entry, render));
  const inBins = () => entry.representative || study.attributes.find((one) => one.name === entry.of)?.type === "number";
  const addedUp = (kind) => [
    make("div", { class: "row" },
      ofWhat(addable(study), kind),
      inBins() ? field("A bin counts as", choice(entry, "representative", REPRESENTATIVES, render), at(kind, "representative")) : null),
    forEach(names, kind),
  ];
  const asked = {
    by: () => [chips("By", names, entry.by, at("by"), () => { changed(); render(); })],
    ways: () => [make("div", { class: "row" },
      field("Attributes in a table", input(entry, "ways", changed, { type: "number", min: 1, max: 6 }), at("marginals", "ways")))],
    ranges: () => [
      make("div", { class: "row" },
        ofWhat(orderable(study), "ranges"),
        field("Which", choice(entry, "range", RANGES, render), at("ranges")),
        entry.range === "width" ? field("Width", input(entry, "width", changed, { type: "number", min: 1 }), at("ranges", "width")) : null),
      forEach(others()),
    ],
    sum: () => addedUp("sum"),
    mean: () => addedUp("mean"),
    quantiles: () => [
      make("div", { class: "row" },
        ofWhat(orderable(study), "quantiles"),
        field("At", input(entry, "at", changed, { size: 14, inputmode: "decimal" }), at("quantiles", "at"), "shares of the records; 0.5 is the median")),
      forEach(others(), "quantiles"),
    ],
    persons: () => [
      forEach(names, "persons"),
      study.privacy.unit === "person" ? null
        : make("p", { class: "small soft" }, "Persons are counted where the release hides all records of a person: choose that below."),
    ],
    total: () => [],
    coverage: () => [make("p", { class: "small soft" }, "How many rows are counted, and how many data holders leave out.")],
    sql: () => [field("A counting query", input(entry, "sql", changed, {
      rows: 3, placeholder: "SELECT sex, COUNT(*) FROM data WHERE age >= 18 GROUP BY sex" }), at("sql"))],
    kept: () => [make("p", { class: "small soft" }, "Several terms, kept as they are in the file.")],
  }[entry.kind]();
  const totals = ["by", "sum", "mean", "quantiles"].includes(entry.kind) && entry.by.length
    ? chips("Totals over", entry.by, entry.totals, at("with_totals"), changed) : null;
  const conditional = !["sql", "coverage"].includes(entry.kind), targeted = !["mean", "quantiles"].includes(entry.kind);
  const more = make("details", { open: Boolean(entry.totals.length || entry.where || entry.weight !== "1" || entry.target) },
    make("summary", { class: "small" }, [conditional ? "Condition, weight" : "Weight", ...(targeted ? ["target"] : []), ...(totals ? ["totals"] : [])].join(", ")),
    make("div", { class: "row" },
      !conditional ? null : field("Only records where", input(entry, "where", changed, { placeholder: "hours >= 35" }), at("where")),
      field("Weight", input(entry, "weight", changed, { size: 5, inputmode: "decimal" }), at("weight"), "2: errors count twice as much"),
      !targeted ? null
        : field("Target", input(entry, "target", changed, { size: 5, inputmode: "decimal" }), at("target"), "the largest standard error")),
    totals);
  return make("li", { class: "card" }, head, asked, more);
}

const OBJECTIVES = [["total", "all errors together"], ["per-table", "all errors, each table alike"], ["max", "the largest error of any answer"]];

export function objectiveCard(study, changed, render) {
  if (study.tables.some((table) => table.target)) {
    return make("p", { class: "small soft" }, "The tables' targets say what is made small.");
  }
  return field("Make as small as possible", choice(study, "objective", OBJECTIVES, render), () => path("objective"));
}

const UNITS = [["record", "one record"], ["person", "all records of a person"], ["participant", "all that a participant holds"]];
const BUDGETS = [["epsilon", "ε and δ"], ["rho", "ρ"]];
const RELATIONS = [["zero-out", "whether it is there"], ["replace", "what it says"]];
const THREATS = [["malicious", "may break the protocol"], ["semi-honest", "follow it, but keep what they see"],
  ["two-servers", "one of two servers is honest"]];
const VALIDATIONS = [["none", "taken as they are"], ["sum", "committed to, and the sum checked"], ["bounded", "proved to be short, too"]];
const EXCESS = [["keep", "stays in the answers"], ["remove", "is removed again"]];
const SEALINGS = [["mlkem768-x25519", "against quantum computers, too"], ["x25519", "with X25519 alone"]];
const decimal = { inputmode: "decimal", size: 7 }, whole = { inputmode: "numeric", size: 9 };

export function privacyCard(study, changed, render) {
  const given = study.privacy;
  const at = (...keys) => () => path("privacy", ...keys);
  return make("div", { class: "card" },
    make("div", { class: "row" },
      field("The release hides", choice(given, "unit", UNITS, render), at("unit")),
      field("that is", choice(given, "relation", RELATIONS, render), at("relation"))),
    given.unit === "person" ? make("div", { class: "row" },
      field("Column with the person's id", input(given, "column", changed), at("unit", "person", "column")),
      field("Records at a participant", input(given, "records", changed, whole), at("unit", "person", "max_records")),
      field("Participants", input(given, "participants", changed, whole), at("unit", "person", "max_participants"))) : null,
    make("div", { class: "row" },
      field("Budget as", choice(given, "budget", BUDGETS, render), at()),
      given.budget === "epsilon"
        ? field("ε", input(given, "epsilon", changed, decimal), at("epsilon"))
        : field("ρ", input(given, "rho", changed, decimal), at("rho")),
      field("δ", input(given, "delta", changed, decimal), at("delta")),
      field("θ", input(given, "corrupt", changed, decimal), at("corrupt_fraction"), "the share that may conspire")));
}

export function aggregationCard(study, changed, render) {
  const given = study.aggregation;
  const at = (...keys) => () => path("aggregation", ...keys);
  return make("div", { class: "card" },
    make("div", { class: "row" },
      field("At least", input(given, "min", changed, whole), at("participants", "min")),
      field("At most", input(given, "max", changed, whole), at("participants", "max")),
      field("Records each, at most", input(given, "records", changed, whole), at("max_records_per_participant"))),
    make("div", { class: "row" },
      field("Share that may drop out", input(given, "dropout", changed, decimal), at("max_dropout")),
      field("Parties", choice(given, "threat", THREATS, render), at("threat_model"))),
    make("div", { class: "row" },
      field("Inputs are", choice(given, "validation", VALIDATIONS, render), at("validation")),
      given.threat === "two-servers"
        ? field("Reports are sealed", choice(given, "sealing", SEALINGS, render), at("sealing"))
        : field("Noise for participants who might have dropped out", choice(given, "excess", EXCESS, render), at("excess_noise"))));
}
