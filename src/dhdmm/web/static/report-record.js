// A record: a field for each attribute of the study, and the number of the value that was entered.

import { Refusal, require } from "./report-plan.js";

const DAY = 24 * 60 * 60 * 1000; // milliseconds

/** By type: an element to fill in, and the code of what it holds. */
const TYPES = {
  category: {
    element: ({ values }) => choice(values.map((value) => (Array.isArray(value) ? value[1] : value))),
    code: (entered) => Number(entered),
  },
  integer: {
    element: ({ range: [low, high] }) => input({ type: "number", min: low, max: high, step: 1 }),
    code: (entered, { range: [low] }) => Number(entered) - low,
  },
  number: {
    element: ({ edges }) => input({ type: "number", min: edges[0], max: edges.at(-1), step: "any" }),
    code: (entered, { edges }) => edges.findLastIndex((edge) => edge <= Number(entered)),
  },
  date: {
    element: ({ range: [first, last] }) => input({ type: "date", min: first, max: last }),
    code: (entered, { range: [first] }) => (Date.parse(entered) - Date.parse(first)) / DAY,
  },
};

/** How many values an attribute has, without a missing one. */
const SIZES = {
  category: ({ values }) => values.length,
  integer: ({ range: [low, high] }) => high - low + 1,
  number: ({ edges }) => edges.length - 1,
  date: ({ range: [first, last] }) => (Date.parse(last) - Date.parse(first)) / DAY + 1,
};

/** A labelled field for each attribute. */
export function fields(study) {
  return study.schema.map((attribute) => {
    const known = TYPES[attribute.type];
    require(known, `This page cannot ask for “${attribute.name}”, a column of type ${attribute.type}.`);
    const element = known.element(attribute);
    element.name = attribute.name;
    element.required = !attribute.missing;
    const field = document.createElement("label");
    field.append(attribute.name, element);
    if (attribute.missing) {
      const note = document.createElement("small");
      note.textContent = `Leave it empty for “${attribute.missing}”.`;
      field.append(note);
    }
    return field;
  });
}

/** The codes of what was filled in; rows of a study that asks for its coverage are counted ones. */
export function codes(study, form) {
  const found = study.schema.map((attribute) => {
    const entered = form.elements[attribute.name].value;
    const size = SIZES[attribute.type](attribute);
    if (entered === "" && attribute.missing) return size;
    const code = entered === "" ? NaN : TYPES[attribute.type].code(entered, attribute);
    if (!(Number.isInteger(code) && code >= 0 && code < size)) throw new Refusal(`“${entered}” is no value of ${attribute.name}.`);
    return code;
  });
  return study.workload.some(({ coverage }) => coverage) ? [...found, 0] : found;
}

/** What a table asks for, in words. */
export function asked(item) {
  const parts = [];
  const by = (names) => (names?.length ? ` by ${names.join(", ")}` : "");
  if (item.sql) parts.push(item.sql);
  else if (item.marginals?.ways) parts.push(`counts by every ${item.marginals.ways} of the columns`);
  else if (item.marginals) parts.push(`counts by ${item.marginals.of.map((names) => names.join(", ")).join("; by ")}`);
  else if (item.ranges) parts.push(`counts over ranges of ${item.ranges.of}${by(item.by)}`);
  else if (item.coverage) parts.push("how many records could be read");
  else if (item.terms) parts.push(...item.terms.map(asked));
  else {
    const kind = ["sum", "mean", "quantiles"].find((name) => item[name]);
    if (item.persons) parts.push(`different persons${by(item.persons.by)}`);
    else if (kind) parts.push(`${kind}${item[kind].at ? ` ${item[kind].at.join(", ")}` : ""} of ${item[kind].of}${by(item[kind].by)}`);
    else parts.push(item.total ? "the total" : `counts${by(item.by)}`);
  }
  if (item.where) parts.push(`where ${item.where}`);
  return parts.join(", ");
}

function input(properties) {
  return Object.assign(document.createElement("input"), properties);
}

function choice(labels) {
  const select = document.createElement("select");
  select.append(new Option("", ""), ...labels.map((label, code) => new Option(String(label), String(code))));
  return select;
}
