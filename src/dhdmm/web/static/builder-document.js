// The study as a file: what is typed becomes YAML, and a checked study fills the fields again.
// Words are not interpreted here: `12` is written plainly and the study reader decides what it is.

class Plain {
  constructor(text) { this.text = text; }
}

class Mapping {
  constructor(entries) { this.entries = entries; }
}

const PLAIN = /^([-+]?[0-9.][-+0-9.eE]*|true|false)$/;
const PART = /(?:"(?:[^"\\]|\\.)*"|[^,\n])+/g;
const PAIR = /^\s*("(?:[^"\\]|\\.)*"|[^":]+?)\s*:\s+(.+)$/s;
const FRAGILE = /[\u007f-\u009f\u2028\u2029\ufeff]/g;

function quoted(text) {
  return JSON.stringify(text).replace(FRAGILE, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Any value as YAML in one line. */
export function yaml(value) {
  if (value instanceof Plain) return value.text;
  if (value instanceof Mapping) return `{${value.entries.map(([k, v]) => `${yaml(k)}: ${yaml(v)}`).join(", ")}}`;
  if (Array.isArray(value)) return `[${value.map(yaml).join(", ")}]`;
  if (value === null || value === undefined) return "null";
  if (typeof value === "object") return yaml(mapping(value));
  return typeof value === "string" ? quoted(value) : String(value);
}

function mapping(object) {
  return new Mapping(Object.entries(object).filter(([, value]) => value !== undefined));
}

/** A word as one would write it in a study file; nothing at all is null. */
export function word(text) {
  const trimmed = text.trim();
  if (trimmed === "") return null;
  if (PLAIN.test(trimmed)) return new Plain(trimmed);
  if (/^".*"$/s.test(trimmed)) {
    try { return JSON.parse(trimmed); } catch { return trimmed; }
  }
  return trimmed;
}

/** The parts between commas and line ends, outside quotes. */
export function parts(text) {
  return (text.match(PART) ?? []).map((part) => part.trim()).filter(Boolean);
}

function values(text) {
  const given = parts(text);
  const pairs = given.map((part) => part.match(PAIR));
  if (given.length && pairs.every(Boolean)) {
    return new Mapping(pairs.map(([, code, label]) => [word(code), String(textOf(label))]));
  }
  return given.map(word);
}

function textOf(written) {
  const read = word(written);
  return read instanceof Plain ? read.text : read;
}

function edges(text) {
  return text.includes(":") ? text.trim() : parts(text).map(word);
}

function sets(text) {
  return text.split("\n").filter((line) => line.trim()).map((line) => {
    const [, label, listed] = line.match(PAIR) ?? [null, line, ""];
    const name = String(textOf(label));
    return listed.trim() === "*" ? { label: name, rest: true } : { label: name, values: parts(listed).map(word) };
  });
}

const UNITS = ["day", "week", "month", "quarter", "year", "weekday", "month of year"];
const calendar = (words, units, unit, size, [low, high], [text, form]) => ({
  words, shape: "row", ordered: true, units,
  fields: [
    [`First ${unit}`, "low", { size, placeholder: low }, ["range"]],
    [`Last ${unit}`, "high", { size, placeholder: high }, ["range", 1], "both included"],
    ["Form of texts", "format", { size, placeholder: text }, ["format"], `if not as ${text}: ${form}`],
  ],
  write: ({ low, high, format }) => ({ range: [low.trim(), high.trim()], format: format.trim() || undefined }),
  read: ({ range: [low, high], format = "" }) => ({ low, high, format }),
});
const NUMERIC = { inputmode: "numeric", size: 8 };

/** What the builder knows of each type of attribute: its fields (label, key, properties, path and
 * hint), and how they become its entry in the file, and the entry the fields. */
export const TYPES = {
  category: {
    words: "one of a list", shape: "wide", ordered: false,
    fields: [["Values", "values", { rows: 2, placeholder: "Female, Male" }, ["values"], "Separated by commas. Coded data: 1: female, 2: male"]],
    write: (given) => ({ values: values(given.values) }),
    read: (entry) => ({ values: entry.values.map((v) => (Array.isArray(v) ? `${typed(v[0])}: ${typed(v[1])}` : typed(v))).join(", ") }),
  },
  integer: {
    words: "whole number", shape: "row", ordered: true,
    fields: [["From", "low", NUMERIC, ["range"]], ["To", "high", NUMERIC, ["range", 1], "both included"]],
    write: ({ low, high }) => ({ range: [word(low), word(high)] }),
    read: ({ range: [low, high] }) => ({ low: String(low), high: String(high) }),
  },
  date: calendar("date", UNITS, "day", 12, ["2024-01-01", "2024-12-31"], ["2024-01-31", "%d.%m.%Y"]),
  datetime: calendar(
    "date and hour", [...UNITS, "hour"], "hour", 14, ["2024-01-01T00", "2024-12-31T23"], ["2024-01-31 13:45", "%d.%m.%Y %H:%M"],
  ),
  number: {
    words: "number, in bins", shape: "row", ordered: true,
    fields: [["Edges of the bins", "edges", { placeholder: "0:100:5" }, ["edges"], "first:last:step, or a list such as 0, 18, 65, 120"]],
    write: (given) => ({ edges: edges(given.edges) }),
    read: (entry) => ({ edges: typedEdges(entry.edges) }),
  },
  measure: {
    words: "amount, added up", shape: "row", ordered: false, measured: true,
    fields: [["From", "low", NUMERIC, ["range"]], ["To", "high", NUMERIC, ["range", 1], "values beyond count as the end"],
      ["In steps of", "step", { ...NUMERIC, placeholder: "1" }, ["step"]]],
    write: ({ low, high, step }) => ({ range: [word(low), word(high)], step: step.trim() ? word(step) : undefined }),
    read: ({ range: [low, high], step }) => ({ low: String(low), high: String(high), step: String(step) }),
  },
};

// ---- from the fields to the file ----------------------------------------------------------------

function attributeEntry(attribute) {
  const missing = attribute.missing.trim() ? textOf(attribute.missing) : undefined;
  return { type: attribute.type, ...TYPES[attribute.type].write(attribute), missing };
}

function grouping(entry) {
  if (entry.kept) return entry.kept;
  if (entry.form === "unit") return { of: entry.of, by: entry.unit };
  return entry.form === "sets" ? { of: entry.of, sets: sets(entry.sets) } : { of: entry.of, edges: edges(entry.edges) };
}

const totals = (table) => (table.totals.length ? table.totals : undefined);
const each = (table) => (table.by.length ? table.by : undefined);
const added = (table) => ({ of: table.of, by: each(table), representative: table.representative || undefined });
const QUESTIONS = {
  by: (table) => ({ by: table.by, with_totals: totals(table) }),
  ways: (table) => ({ marginals: { ways: word(table.ways) } }),
  ranges: (table) => ({
    ranges: { of: table.of, kind: table.range, width: table.range === "width" ? word(table.width) : undefined },
    by: each(table),
  }),
  sum: (table) => ({ sum: added(table), with_totals: totals(table) }),
  mean: (table) => ({ mean: added(table), with_totals: totals(table) }),
  quantiles: (table) => ({ quantiles: { of: table.of, at: parts(table.at).map(word), by: each(table) }, with_totals: totals(table) }),
  persons: (table) => ({ persons: { by: each(table) } }),
  coverage: () => ({ coverage: true }),
  total: () => ({ total: true }),
  sql: (table) => ({ sql: table.sql }),
  kept: (table) => table.kept,
};

function item(table) {
  const whole = ["sql", "coverage"].includes(table.kind); // has no condition beside it
  return {
    name: table.name,
    ...QUESTIONS[table.kind](table),
    where: !whole && table.where.trim() ? table.where : undefined,
    weight: table.weight.trim() && table.weight.trim() !== "1" ? word(table.weight) : undefined,
    target: table.target?.trim() ? word(table.target) : undefined,
  };
}

function privacy(given) {
  const person = { column: given.column, max_records: word(given.records), max_participants: word(given.participants) };
  return {
    unit: given.unit === "person" ? { person } : given.unit,
    epsilon: given.budget === "epsilon" ? word(given.epsilon) : undefined,
    rho: given.budget === "rho" ? word(given.rho) : undefined,
    delta: given.budget === "epsilon" || given.delta.trim() ? word(given.delta) : undefined,
    corrupt_fraction: word(given.corrupt),
    relation: given.relation,
  };
}

const SEALING = "mlkem768-x25519";

function aggregation(given) {
  const sealed = given.threat === "two-servers";
  return {
    threat_model: given.threat,
    participants: given.min === given.max && !given.ranged ? word(given.min) : { min: word(given.min), max: word(given.max) },
    max_dropout: word(given.dropout),
    max_records_per_participant: word(given.records),
    validation: given.validation === "none" ? undefined : given.validation,
    sealing: sealed && given.sealing !== SEALING ? given.sealing : undefined,
    excess_noise: !sealed && given.excess === "remove" ? "remove" : undefined,
  };
}

/** The text of a study file. */
export function textOfStudy(study) {
  return yaml({
    study: study.name,
    schema: new Mapping(study.attributes.map((attribute) => [attribute.name, attributeEntry(attribute)])),
    groupings: new Mapping(study.groupings.map((entry) => [entry.name, grouping(entry)])),
    workload: study.tables.map(item),
    objective: study.objective && study.objective !== "total" ? study.objective : undefined,
    extra_measurements: study.extra,
    privacy: privacy(study.privacy),
    aggregation: aggregation(study.aggregation),
  });
}

// ---- from a checked study to the fields ---------------------------------------------------------

/** As it has to be typed to be read again as this value. */
function typed(value) {
  if (typeof value !== "string") return String(value);
  const safe = value === value.trim() && value !== "" && !PLAIN.test(value) && !/[",\n:]/.test(value);
  return safe ? value : JSON.stringify(value);
}

/** Evenly spaced whole numbers are shorter as first:last:step. */
function typedEdges(given) {
  const step = given[1] - given[0];
  const even = given.length > 3 && given.every((edge, i) => Number.isInteger(edge) && edge === given[0] + i * step);
  return even ? `${given[0]}:${given.at(-1)}:${step}` : given.join(", ");
}

function groupingOf([name, entry]) {
  const made = newGrouping(name, entry.of);
  if (entry.by) return { ...made, form: "unit", unit: entry.by };
  if (entry.levels) return { ...made, kept: entry };
  if (entry.edges) return { ...made, edges: typedEdges(entry.edges) };
  if (!entry.sets.every((set) => set.values || set.rest)) return { ...made, kept: entry };
  const lines = entry.sets.map((set) => `${typed(set.label)}: ${set.rest ? "*" : set.values.map(typed).join(", ")}`);
  return { ...made, form: "sets", sets: lines.join("\n") };
}

function tableOf(entry) {
  const { name, where = "", weight = 1, target = "", ...asked } = entry;
  const made = { ...newTable("by", name), where, weight: String(weight), target: String(target), by: asked.by ?? [], totals: asked.with_totals ?? [] };
  if (asked.sql !== undefined) return { ...made, kind: "sql", sql: asked.sql };
  if (asked.total) return { ...made, kind: "total" };
  if (asked.marginals?.ways) return { ...made, kind: "ways", ways: String(asked.marginals.ways) };
  if (asked.ranges && !asked.with_totals) {
    const { of, kind, width = "" } = asked.ranges;
    return { ...made, kind: "ranges", of, range: kind, width: String(width) };
  }
  if (asked.coverage) return { ...made, kind: "coverage" };
  if (asked.persons) return { ...made, kind: "persons", by: asked.persons.by ?? [] };
  for (const kind of ["sum", "mean", "quantiles"]) {
    if (!asked[kind]) continue;
    const { of, by = [], at = [], representative = "" } = asked[kind];
    return { ...made, kind, of, by, at: at.join(", "), representative: representative === "midpoint" ? "" : representative };
  }
  return asked.terms || asked.marginals || asked.ranges ? { ...made, kind: "kept", kept: asked } : made;
}

function privacyOf(given) {
  if (!given) return newStudy().privacy;
  const person = given.unit.person ?? { column: "", max_records: "", max_participants: 1 };
  return {
    unit: given.unit.person ? "person" : given.unit,
    column: person.column, records: String(person.max_records), participants: String(person.max_participants),
    budget: given.rho === undefined ? "epsilon" : "rho",
    epsilon: String(given.epsilon ?? ""), delta: String(given.delta ?? ""), rho: String(given.rho ?? ""),
    corrupt: String(given.corrupt_fraction), relation: given.relation,
  };
}

function aggregationOf(given) {
  if (!given) return newStudy().aggregation;
  const count = given.participants;
  return {
    threat: given.threat_model, min: String(count.min ?? count), max: String(count.max ?? count), ranged: count.min !== undefined,
    dropout: String(given.max_dropout), records: String(given.max_records_per_participant),
    validation: given.validation, sealing: given.sealing, excess: given.excess_noise,
  };
}

/** The fields of a study that the server has read. */
export function studyOf(form) {
  return {
    name: form.study,
    attributes: form.schema.map((entry) => ({
      ...newAttribute(entry.name, entry.type), ...TYPES[entry.type].read(entry), missing: entry.missing === undefined ? "" : typed(entry.missing),
    })),
    groupings: Object.entries(form.groupings).map(groupingOf),
    tables: form.workload.map(tableOf),
    objective: form.objective,
    extra: form.extra_measurements,
    privacy: privacyOf(form.privacy),
    aggregation: aggregationOf(form.aggregation),
  };
}

export function newAttribute(name = "", type = "category") {
  const keys = Object.values(TYPES).flatMap(({ fields }) => fields.map(([, key]) => key));
  return { name, type, missing: "", ...Object.fromEntries(keys.map((key) => [key, ""])) };
}

export function newGrouping(name, of) {
  return { name, of, form: "edges", unit: "month", edges: "", sets: "", kept: null };
}

export function newTable(kind, name) {
  return { name, kind, by: [], totals: [], ways: "1", of: "", range: "prefix", width: "", at: "0.25, 0.5, 0.75", representative: "", sql: "", where: "", weight: "1", target: "", kept: null };
}

export function newStudy() {
  return {
    name: "", attributes: [], groupings: [], tables: [], objective: "total",
    privacy: {
      unit: "record", column: "", records: "1", participants: "1", budget: "epsilon",
      epsilon: "1", delta: "1e-6", rho: "0.05", corrupt: "0.05", relation: "zero-out",
    },
    extra: undefined,
    aggregation: {
      threat: "malicious", min: "100", max: "1000", ranged: false, dropout: "0.05", records: "100",
      validation: "none", sealing: SEALING, excess: "keep",
    },
  };
}

// ---- a table's header ---------------------------------------------------------------------------

const HEADER_BYTES = 64 * 1024;

/** The column names of a CSV file. Its first line is read, in this browser, and nothing else. */
export async function columnsOf(file) {
  const text = (await file.slice(0, HEADER_BYTES).text()).replace(/^\ufeff/, "");
  const line = text.match(/^(?:"(?:[^"]|"")*"|[^"\r\n])*/)[0];
  const between = [",", ";", "\t", "|"].reduce((best, mark) => (line.split(mark).length > line.split(best).length ? mark : best));
  const names = [];
  let name = "", inside = false;
  for (const c of line) {
    if (c === '"') inside = !inside;
    else if (c === between && !inside) { names.push(name.trim()); name = ""; }
    else name += c;
  }
  return [...names, name.trim()].filter(Boolean);
}
