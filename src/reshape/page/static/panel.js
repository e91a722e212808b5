// One run: its cards, each drawn anew only when its own section has changed, and at most once per frame.

import { el } from "./dom.js";
import { Flow } from "./flow.js";
import { Head } from "./head.js";
import { History } from "./history.js";
import { Hot } from "./hot.js";
import { Result } from "./result.js";
import { Timeline } from "./timeline.js";
import { Workers } from "./workers.js";

const PARTS = { head: Head, result: Result, workers: Workers, flow: Flow, history: History, hot: Hot, timeline: Timeline };

export class Panel {
  // `act` does an action of the run; `parts`: the cards that are shown.
  constructor(number, speak, act, parts = Object.keys(PARTS)) {
    this.state = { number, timeline: [], newest: 0, chosenWorkers: new Set(), port: null, peaks: new Map() };
    this.act = act;
    this.parts = Object.fromEntries(parts.map((name) => [name, new PARTS[name](this, speak)]));
    this.due = new Set();
    const cards = Object.values(this.parts).map((part) => part.node);
    this.node = el("section", { class: "run", "aria-label": `Run ${number}` }, el("div", { class: "cards" }, ...cards));
    new ResizeObserver(() => this.draw("workers", "flow", "history", "result", "timeline")).observe(this.node);
  }

  // The server tells everything again to a browser that comes back.
  forget() {
    this.state.stale = true;
  }

  take(changes) {
    const { state } = this;
    if (changes.head && changes.head.generation !== (state.head?.generation ?? changes.head.generation)) {
      Object.assign(state, { timeline: [], newest: 0, result: null, history: null });
      this.draw("timeline", "result", "history");
    }
    if (state.stale && changes.timeline) {
      state.timeline = [];
      state.newest = 0;
    }
    state.stale = false;
    for (const [name, value] of Object.entries(changes)) {
      if (name === "timeline") this.addToTimeline(value);
      else state[name] = value;
    }
    if (changes.flow) this.draw("workers", "history", "hot", "timeline", "flow");
    if (changes.workers) this.draw("flow");
    if (changes.head && this.parts.timeline?.lags(changes.head)) this.draw("timeline");
    this.draw(...Object.keys(changes));
  }

  addToTimeline(entries) {
    const { state } = this;
    state.timeline.push(...entries.filter(([number]) => number > state.newest));
    state.newest = Math.max(state.newest, entries.at(-1)?.[0] ?? 0);
    // Hours of events: the oldest of those that come again and again are left out, as the server does.
    if (state.timeline.length > 2000) state.timeline = [...state.timeline.slice(0, 1000).filter((_, at) => at % 2), ...state.timeline.slice(1000)];
  }

  draw(...names) {
    if (!this.due.size) requestAnimationFrame(() => this.drawNow());
    for (const name of names) this.due.add(name);
  }

  drawNow() {
    const due = [...this.due];
    this.due.clear();
    for (const name of due) this.parts[name]?.draw(this.state);
  }

  // The input that is looked at: the one chosen by hand, else the one with most rows waiting.
  port() {
    const ports = this.state.workers ?? [];
    const chosen = ports.find((port) => `${port.operator}.${port.port}` === this.state.port);
    if (chosen) return chosen;
    const peaks = this.state.peaks;
    const waits = (port) => port.waiting.reduce((sum, rows) => sum + rows, 0);
    for (const port of ports) {
      const name = `${port.operator}.${port.port}`;
      peaks.set(name, Math.max(peaks.get(name) ?? 0, waits(port)));
    }
    const open = ports.filter((port) => port.state !== "waiting" && port.state !== "drained");
    const peak = (port) => peaks.get(`${port.operator}.${port.port}`);
    return [...(open.length ? open : ports)].sort((a, b) => peak(b) - peak(a))[0];
  }

  label(operator, port) {
    const at = this.state.flow?.operators?.find((each) => each.id === operator);
    return at?.ports?.[port]?.label ?? `operator ${operator}`;
  }

  choosePort(name) {
    this.state.port = name;
    this.draw("workers", "history");
  }

  chooseWorkers(workers) {
    this.state.chosenWorkers = new Set(workers);
    this.draw("workers");
  }
}
