// Fields that know which part of the study they are about, so that a mistake can be shown beside it.

const places = new WeakMap(); // control -> () => path
let count = 0;

/** An element; properties that begin with "on" are listeners. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined && value !== null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** A path as the study reader writes it: workload[0].by */
export function path(...keys) {
  return keys
    .map((key) => (typeof key === "number" ? `[${key}]` : `.${[...key].slice(0, 60).join("")}`))
    .join("")
    .replace(/^\./, "");
}

/** A control with its label, its hint and room for what is wrong with it. */
export function field(label, control, place, hint = "") {
  const id = control.id || `field-${(count += 1)}`;
  control.id = id;
  places.set(control, place);
  control.setAttribute("aria-describedby", `${id}-hint ${id}-wrong`);
  return make(
    "div", { class: "field" },
    make("label", { for: id }, label),
    control,
    make("p", { class: "small soft", id: `${id}-hint`, hidden: !hint }, hint),
    make("p", { class: "small wrong", id: `${id}-wrong`, hidden: true }),
  );
}

/** An input bound to `object[key]`. */
export function input(object, key, changed, properties = {}) {
  const control = make(properties.rows ? "textarea" : "input", {
    autocomplete: "off", spellcheck: "false", ...properties,
    oninput: () => { object[key] = control.value; changed(); },
  });
  control.value = object[key];
  return control;
}

/** A choice bound to `object[key]`; `render` draws again what depends on it. */
export function choice(object, key, options, render) {
  const control = make("select", { onchange: () => { object[key] = control.value; render(); } });
  for (const [value, words] of options) control.append(make("option", { value }, words));
  control.value = object[key];
  if (control.selectedIndex < 0 && options.length) object[key] = control.value = options[0][0];
  return control;
}

/** Words to click on: those in `chosen` are pressed, in the order in which they were. */
export function chips(label, names, chosen, place, changed) {
  const group = make("div", { class: "chips", role: "group", "aria-label": label, tabindex: "-1" });
  for (const name of names) {
    const chip = make("button", {
      type: "button", class: "chip", "aria-pressed": String(chosen.includes(name)),
      onclick: () => {
        const at = chosen.indexOf(name);
        if (at < 0) chosen.push(name); else chosen.splice(at, 1);
        chip.setAttribute("aria-pressed", String(at < 0));
        changed();
      },
    }, name);
    group.append(chip);
  }
  if (!names.length) group.append(make("span", { class: "small soft" }, "Add an attribute first."));
  const box = field(label, group, place);
  const caption = box.querySelector("label");
  caption.replaceWith(make("span", { class: "caption" }, label));
  return box;
}

/** Nothing is wrong any more. */
export function clearMistakes() {
  for (const control of document.querySelectorAll("[aria-invalid=true]")) control.removeAttribute("aria-invalid");
  for (const said of document.querySelectorAll(".field .wrong")) said.hidden = true;
}

/** Show the mistake at the field it is about, and return that field. */
export function showMistake(mistake, words) {
  const known = [...document.querySelectorAll("[aria-describedby]")]
    .map((control) => [control, places.get(control)?.()])
    .filter(([, place]) => place !== undefined);
  const around = known.filter(([, place]) => begins(mistake.path, place)).sort(([, a], [, b]) => b.length - a.length);
  const within = known.filter(([, place]) => begins(place, mistake.path));
  const nearest = (around[0] ?? within[0])?.[0] ?? null;
  if (nearest) {
    nearest.setAttribute("aria-invalid", "true");
    const said = document.getElementById(`${nearest.id}-wrong`);
    said.textContent = words;
    said.hidden = false;
    nearest.closest("details")?.setAttribute("open", "");
  }
  return nearest;
}

function begins(whole, start) {
  return whole === start || (start !== "" && (whole.startsWith(`${start}.`) || whole.startsWith(`${start}[`)));
}
