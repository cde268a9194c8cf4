// What the study would give, as it stands: drawn anew with every answer of the server.

import { make } from "./builder-fields.js";

const whole = new Intl.NumberFormat("en");
const UNITS = ["B", "kB", "MB", "GB", "TB"];

/** Four digits. */
export function figure(value) {
  if (value >= 1e7) return value.toPrecision(3);
  const digits = value > 0 ? Math.min(4, Math.max(0, 3 - Math.floor(Math.log10(value)))) : 0;
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

export function bytes(count) {
  const power = Math.min(Math.floor((String(count).length - 1) / 3), UNITS.length - 1);
  return `${Number((count / 1000 ** power).toPrecision(3))} ${UNITS[power]}`;
}

function large(count) {
  return count < 1e10 ? whole.format(count) : count.toExponential(2);
}

function small(value) {
  return value < 1e-3 ? value.toExponential() : String(value);
}

/** The figures in one line, for where there is no room for more. */
export function summary(found) {
  if (found.rho === undefined) return "";
  return `error ${figure(found.expected_rmse)} · ${bytes(found.participant_bytes)} each · ε = ${figure(found.epsilon)}`;
}

/** The figures as a list of facts. */
export function facts(found) {
  const entries = [
    ["Answers", large(found.queries), `over ${large(found.cells)} cells`],
    ["Measured sums", large(found.rows), found.ratio ? `${found.objective_words} at most ${(100 * (found.ratio - 1)).toFixed(2)} % above the optimum` : ""],
  ];
  if (found.rho !== undefined) {
    entries.push(
      ["Typical error", `${figure(found.expected_rmse)}`, `if all ${whole.format(found.participants)} finish`],
      ["From each participant", bytes(found.participant_bytes), `${found.modulus_bits} bits a sum`],
      ["Privacy", `ε = ${figure(found.epsilon)}`, `δ = ${small(found.delta)}, ρ = ${figure(found.rho)}`],
    );
  }
  if (found.privacy_needed) {
    const needed = found.privacy_needed;
    entries.push(["The targets take", `ε = ${figure(needed.epsilon)}`, needed.epsilon > found.epsilon ? "more than the budget: they are missed" : "which the budget has"]);
  }
  return entries.map(([term, value, more]) =>
    make("div", {}, make("dt", {}, term), make("dd", {}, value, make("small", {}, more))));
}

/** A row for every table of the release. */
export function rows(found) {
  return found.items.map((item) => make("tr", {},
    make("th", { scope: "row", class: "word" }, item.name, item.errors_of === "sums" ? " (sums)" : ""),
    make("td", { class: "n" }, whole.format(item.queries)),
    make("td", { class: "n" }, figure(item.standard_error_median)),
    make("td", { class: "n" }, figure(item.standard_error_max), item.target ? ` (target ${item.target})` : "")));
}
