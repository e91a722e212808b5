// What happened and when: a strip over the whole run, and a list in which every entry tells its story.

import { choices, el, reconcile, svg } from "./dom.js";
import { seconds } from "./format.js";

const MOST_LISTED = 200;
const WORDS = { flow: "attempt", over: "ended", opened: "input", ended: "done", changed: "shares", iterated: "again", threshold: "tau", "failed transfer": "failed" };
const COLORS = { started: "--skewed", transfer: "--helper", changed: "--helper", iterated: "--helper", failed: "--bad", restarted: "--bad", "gave up": "--bad", "failed transfer": "--bad", ended: "--good", over: "--good" };
const GROUPS = {
  all: null,
  "load transfers": ["started", "iterated", "changed", "over", "transfer", "failed", "failed transfer", "refused"],
  "phases of the run": ["flow", "opened", "input", "ended", "failed", "restarted", "paused", "resumed"],
  faults: ["failed", "restarted", "gave up", "failed transfer"],
};

export class Timeline {
  constructor(panel) {
    this.panel = panel;
    this.filter = el("select");
    choices(this.filter, Object.keys(GROUPS).map((name) => [name, name]), "all");
    this.filter.addEventListener("change", () => panel.draw("timeline"));
    this.strip = el("div");
    this.list = el("ol", { class: "entries", reversed: true, "aria-label": "Events, the newest first", tabindex: "-1" });
    this.more = el("p", { class: "quiet" });
    this.node = el("section", { class: "card wide timeline", "aria-label": "Timeline" }, el("div", { class: "bar-title" }, el("h3", { text: "Timeline" }), el("label", {}, "show", this.filter)), this.strip, this.list, this.more);
    this.drawnTo = 0; // seconds
  }

  draw({ timeline, head }) {
    const kinds = GROUPS[this.filter.value];
    const entries = kinds ? timeline.filter((entry) => kinds.includes(entry[2])) : timeline;
    this.drawStrip(entries, head?.seconds ?? 0);
    const listed = entries.slice(-MOST_LISTED).reverse();
    reconcile(this.list, listed.map((entry) => String(entry[0])), () => this.make(), (row, at) => this.fill(row, listed[at]));
    this.more.textContent = entries.length > listed.length ? `and ${entries.length - listed.length} before these` : "";
  }

  // Whether the run has gone on, visibly, since the strip was drawn.
  lags({ seconds: now, active }) {
    return now > this.drawnTo * 1.02 || (!active && now > this.drawnTo);
  }

  drawStrip(entries, now) {
    const width = Math.max(240, this.strip.clientWidth || 500);
    const end = Math.max(1, now, entries.at(-1)?.[1] ?? 0);
    this.drawnTo = end;
    const seen = new Set();
    const marks = [];
    for (const [, at, kind] of entries) {
      const x = Math.round((at / end) * (width - 2)) + 1;
      const color = COLORS[kind] ?? "--none";
      if (seen.has(`${x}${color}`)) continue;
      seen.add(`${x}${color}`);
      const line = svg("line", { x1: x, x2: x, y1: 4, y2: 22 });
      line.style.stroke = `var(${color})`;
      marks.push(line);
    }
    this.strip.replaceChildren(
      svg(
        "svg",
        { class: "strip", viewBox: `0 0 ${width} 34`, role: "img", "aria-label": `${entries.length} events in ${seconds(end)}; they are listed below` },
        svg("line", { class: "axis", x1: 0, x2: width, y1: 22, y2: 22 }),
        ...marks,
        svg("text", { class: "faint", x: 0, y: 33, text: "0" }),
        svg("text", { class: "faint", x: width, y: 33, "text-anchor": "end", text: seconds(end) }),
      ),
    );
  }

  make() {
    const button = el("button", { type: "button", "aria-expanded": "false" }, el("time"), el("span", { class: "kind" }), el("span", { class: "short" }));
    button.addEventListener("click", () => this.toggle(button));
    return el("li", {}, button);
  }

  fill(row, entry) {
    const [number, at, kind, text] = entry;
    row.entry = entry;
    const button = row.firstChild;
    if (button.dataset.number === String(number)) return;
    button.dataset.number = number;
    const [time, word, short] = button.children;
    time.textContent = seconds(at);
    word.textContent = WORDS[kind] ?? kind;
    word.dataset.kind = kind;
    short.textContent = text;
  }

  // The story of an entry: where, who, and what was said about the same worker before and after it.
  toggle(button) {
    const row = button.parentElement;
    const open = button.getAttribute("aria-expanded") === "true";
    this.list.querySelectorAll(".story").forEach((story) => story.remove());
    this.list.querySelectorAll("[aria-expanded=true]").forEach((each) => each.setAttribute("aria-expanded", "false"));
    if (open) {
      this.panel.chooseWorkers([]);
      return;
    }
    button.setAttribute("aria-expanded", "true");
    const [number, , , , operator, port, skewed, helpers] = row.entry;
    const lines = [];
    if (operator >= 0) lines.push(`In ${this.panel.label(operator, port)}.`);
    if (skewed >= 0) {
      lines.push(`About worker ${skewed}${helpers.length ? `, helped by ${helpers.join(", ")}` : ""}; marked among the workers.`);
      const others = this.panel.state.timeline.filter((entry) => entry[6] === skewed && entry[4] === operator && entry[5] === port && entry[0] !== number && ["started", "iterated", "changed", "over"].includes(entry[2]));
      const before = others.filter((entry) => entry[0] < number).at(-1);
      const after = others.find((entry) => entry[0] > number);
      if (before) lines.push(`Before, at ${seconds(before[1])}: ${before[3]}`);
      if (after) lines.push(`Then, at ${seconds(after[1])}: ${after[3]}`);
    }
    row.append(el("div", { class: "story", role: "status" }, ...lines.map((text) => el("p", { text }))));
    this.panel.chooseWorkers(skewed >= 0 ? [skewed, ...helpers] : []);
  }
}
