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

const KINDS = [["by", "counts by"], ["ways", "every table of some attributes"], ["ranges", "ranges of values"], ["sum", "the sum of"], ["mean", "the mean of"], ["quantiles", "the median, quantiles of"], ["persons", "different persons"], ["total", "the total"], ["sql", "SQL"]];
const RANGES = [["prefix", "cumulative: up to each value"], ["all", "every interval"], ["width", "windows of a width"]];

export function tableCard(study, entry, changed, render) {
  const number = () => study.tables.indexOf(entry);
  const at = (...keys) => () => path("workload", number(), ...keys);
  const counted = study.attributes.filter((one) => !TYPES[one.type].measured);
  const added = study.attributes.filter((one) => ["measure", "integer", "number"].includes(one.type)).map((one) => [one.name, one.name]);
  const levels = study.groupings.flatMap((one) => (one.kept?.levels ?? []).map((name) => ({ name })));
  const names = [...counted, ...study.groupings.filter((one) => !one.kept?.levels), ...levels].map((one) => one.name).filter(Boolean);
  const ordered = [
    ...study.attributes.filter((one) => TYPES[one.type].ordered),
    ...study.groupings.filter((one) => one.kept === null && one.form !== "sets"),
  ].map((one) => [one.name, one.name]);
  const kept = entry.kind === "kept";
  const head = make("div", { class: "row" },
    field("Table", input(entry, "name", changed), at("name")),
    kept ? null : field("Asks for", choice(entry, "kind", KINDS, render), at()),
    remove(study.tables, entry, render));
  const derived = (kind, options) => [
    make("div", { class: "row" },
      field("Of", choice(entry, "of", options, render), at(kind, "of")),
      kind === "quantiles" ? field("At", input(entry, "at", changed, { size: 14 }), at("quantiles", "at"), "0.5 is the median") : null),
    chips("For each", names.filter((name) => name !== entry.of), entry.by, at(kind, "by"), () => { changed(); render(); }),
  ];
  const asked = {
    by: () => [chips("By", names, entry.by, at("by"), () => { changed(); render(); })],
    ways: () => [make("div", { class: "row" },
      field("Attributes in a table", input(entry, "ways", changed, { type: "number", min: 1, max: 6 }), at("marginals", "ways")))],
    ranges: () => [
      make("div", { class: "row" },
        field("Of", choice(entry, "of", ordered, render), at("ranges", "of")),
        field("Which", choice(entry, "range", RANGES, render), at("ranges")),
        entry.range === "width" ? field("Width", input(entry, "width", changed, { type: "number", min: 1 }), at("ranges", "width")) : null),
      chips("For each", names.filter((name) => name !== entry.of), entry.by, at("by"), changed),
    ],
    sum: () => derived("sum", added),
    mean: () => derived("mean", added),
    quantiles: () => derived("quantiles", ordered),
    persons: () => [chips("For each", names, entry.by, at("persons", "by"), () => { changed(); render(); })],
    total: () => [],
    sql: () => [field("A counting query", input(entry, "sql", changed, {
      rows: 3, placeholder: "SELECT sex, COUNT(*) FROM data WHERE age >= 18 GROUP BY sex" }), at("sql"))],
    kept: () => [make("p", { class: "small soft" }, entry.kept.coverage ? "Rows counted and rows left out." : "Several terms, kept as they are in the file.")],
  }[entry.kind]();
  const totals = ["by", "sum", "mean", "quantiles"].includes(entry.kind) && entry.by.length
    ? chips("Totals over", entry.by, entry.totals, at("with_totals"), changed) : null;
  const more = make("details", { open: Boolean(entry.totals.length || entry.where || entry.weight !== "1" || entry.target) },
    make("summary", { class: "small" }, "Condition, weight, target, totals"),
    make("div", { class: "row" },
      entry.kind === "sql" ? null : field("Only records where", input(entry, "where", changed, { placeholder: "hours >= 35" }), at("where")),
      field("Weight", input(entry, "weight", changed, { size: 5, inputmode: "decimal" }), at("weight"), "2: errors count twice as much"),
      ["mean", "quantiles"].includes(entry.kind) ? null
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
      field("Parties", choice(given, "threat", THREATS, render), at("threat_model"))));
}
