// Elements by name, attributes and children. Text is always set as text, never as markup: it may be a user's data.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "text") node.textContent = value;
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

// A colour of the sheet as drawings on a canvas need it, for the place where they are. Asking for one makes the browser look through all
// styles, so each is asked for once a second: a theme may change.
const colors = new Map();

export function color(near, name) {
  const known = colors.get(name);
  if (known && performance.now() - known.at < 1000) return known.found;
  const probe = near.appendChild(el("i", { hidden: true }));
  probe.style.color = `var(${name})`;
  const found = getComputedStyle(probe).color;
  probe.remove();
  if (found) colors.set(name, { found, at: performance.now() });
  return found;
}

// A list of keyed rows that is brought to a new state with as few changes as possible.
export function reconcile(parent, keys, make, update) {
  const known = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let before = null;
  for (const [index, key] of keys.entries()) {
    let row = known.get(key);
    known.delete(key);
    if (!row) {
      row = make(key);
      row.dataset.key = key;
    }
    const place = before ? before.nextSibling : parent.firstChild;
    if (place !== row) parent.insertBefore(row, place);
    update(row, index);
    before = row;
  }
  for (const gone of known.values()) gone.remove();
}

// Choices of a select, without closing it or losing what was chosen.
export function choices(select, options, chosen) {
  const wanted = JSON.stringify(options);
  if (select.dataset.options !== wanted) {
    select.dataset.options = wanted;
    select.replaceChildren(...options.map(([value, text]) => el("option", { value, text })));
  }
  if (chosen !== undefined && select.value !== String(chosen)) select.value = chosen;
}

export function table(caption, columns, rows) {
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el(
      "table",
      {},
      el("caption", { text: caption }),
      el("thead", {}, el("tr", {}, ...columns.map(([text, number]) => el("th", { scope: "col", class: number ? "number" : null, text })))),
      el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((value, at) => el("td", { class: columns[at][1] ? "number" : null, text: value }))))),
    ),
  );
}

// A table beside a drawing. It is made when it is opened, and again when its contents change.
export class TableBeside {
  constructor(title, make) {
    this.make = make;
    this.node = el("details", {}, el("summary", { text: title }));
    this.node.addEventListener("toggle", () => this.update());
  }

  update() {
    if (!this.node.open) return;
    const scrolled = this.node.querySelector(".scroll")?.scrollTop ?? 0;
    const made = this.make();
    this.node.querySelector(".scroll")?.remove();
    this.node.append(made);
    made.scrollTop = scrolled;
  }
}
