// Name, status, how far it is, how far to trust what is shown, and the buttons.

import { el } from "./dom.js";
import { bytes, count, percent, seconds, short } from "./format.js";

const WORDS = { pause: "Pause", resume: "Resume", stop: "Stop", restart: "From the start", speed: "Speed" };

// Rows that wait, in bytes: in the memory of hosts and on their disks.
function queued({ hosts }) {
  const sum = (at) => (hosts ?? []).reduce((total, host) => total + host[at], 0);
  const [memory, disk] = [sum(0), sum(1)];
  if (!memory && !disk) return null;
  return disk ? `${bytes(memory)}, ${bytes(disk)} on disk` : bytes(memory);
}

// The part that is read, without rows that still wait; unknown where nobody knows how much there is to read.
function done({ part, rows, waiting }) {
  if (part === null || part === undefined) return null;
  return rows ? part * Math.max(0, 1 - (waiting ?? 0) / rows) : part;
}

export class Head {
  constructor(panel, speak) {
    this.panel = panel;
    this.speak = speak;
    this.title = el("h2");
    this.badge = el("span", { class: "badge" });
    this.actions = el("div", { class: "actions" });
    this.fill = el("span");
    this.progress = el("div", { class: "progress", role: "progressbar", "aria-label": "Progress", "aria-valuemin": "0", "aria-valuemax": "100" }, this.fill);
    this.facts = el("dl", { class: "facts" });
    this.problem = el("p", { class: "problem", role: "alert" });
    this.node = el(
      "div",
      { class: "card wide head" },
      el("div", { class: "head-line" }, this.title, this.badge, this.actions),
      this.progress,
      this.facts,
      this.problem,
    );
    this.made = "";
    this.said = "";
    this.saidAt = 0;
  }

  draw({ head }) {
    this.title.textContent = head.name;
    const word = head.status.split(":")[0];
    this.badge.textContent = head.status;
    this.badge.dataset.state = word;
    this.drawButtons(head);
    this.drawProgress(head);
    const failed = word === "failed" && head.ended ? head.ended : "";
    if (this.problem.textContent !== failed) this.problem.textContent = failed;
    this.tell(head, word);
  }

  drawButtons(head) {
    const made = head.actions.join();
    if (made === this.made) return;
    this.made = made;
    this.actions.replaceChildren(...head.actions.map((action) => (action === "speed" ? this.speed() : this.button(action))));
  }

  button(action) {
    const button = el("button", { type: "button", "data-action": action, class: action === "stop" ? "danger" : null, text: WORDS[action] ?? action });
    button.addEventListener("click", () => this.do(button, action));
    return button;
  }

  speed() {
    const select = el("select", { "aria-label": "Speed" }, ...[0.5, 1, 2, 5, 10, 50].map((times) => el("option", { value: times, text: `${times}×` })));
    select.value = "1";
    select.addEventListener("change", () => this.do(select, "speed", Number(select.value)));
    return select;
  }

  async do(control, action, value = null) {
    control.disabled = true;
    this.speak(`${WORDS[action] ?? action}: asked`);
    try {
      await this.panel.act(action, value);
    } catch (error) {
      this.problem.textContent = error.message;
    } finally {
      control.disabled = false;
    }
  }

  drawProgress(head) {
    const { progress } = head;
    const part = head.status.startsWith("done") ? 1 : done(progress);
    this.progress.classList.toggle("unknown", part === null);
    if (part === null) this.progress.removeAttribute("aria-valuenow");
    else this.progress.setAttribute("aria-valuenow", String(Math.round(part * 100)));
    this.fill.style.width = part === null ? "" : `${part * 100}%`;
    const facts = [
      ["time", seconds(head.seconds)],
      ["read", typeof progress.part === "number" ? percent(progress.part) : null],
      ["time left", head.active && typeof progress.left_s === "number" ? seconds(progress.left_s) : null],
      ["rows a second", progress.rows_per_s ? short(progress.rows_per_s) : null],
      ["rows read", progress.rows ? count(progress.rows) : null],
      ["rows waiting", head.active && progress.waiting ? count(progress.waiting) : null],
      ["in queues", head.active ? queued(progress) : null],
      ["trust", head.trust === null || head.trust === undefined ? null : `${percent(head.trust)} representative`],
      ["workers", head.workers ? `${count(head.workers)} on ${count(head.hosts)} hosts` : null],
      ["attempt", head.attempt > 1 ? String(head.attempt) : null],
    ].filter(([, value]) => value !== null);
    this.facts.replaceChildren(...facts.map(([name, value]) => el("div", {}, el("dt", { text: name }), el("dd", { text: value }))));
  }

  // A screen reader hears of changes of the status at once, of progress every quarter of a minute.
  tell(head, word) {
    const now = performance.now();
    if (word === this.said && now - this.saidAt < 15000) return;
    if (word === this.said && !head.active) return;
    const trust = head.trust === null || head.trust === undefined ? "" : `, ${percent(head.trust)} representative`;
    this.speak(`${head.name}: ${head.status}, ${seconds(head.seconds)}${trust}`);
    this.said = word;
    this.saidAt = now;
  }
}
