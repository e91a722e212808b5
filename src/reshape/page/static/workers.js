// Rows that wait for each worker, who is skewed and who helps, and load on its way: columns for up to 64 workers, a map of
// cells for more.

import { choices, color, el, svg, table, TableBeside } from "./dom.js";
import { bytes, cell, count, percent, short } from "./format.js";

const MOST_COLUMNS = 64;
const HEIGHT = 236;
const TOP = 66;
const BOTTOM = 40;

export class Workers {
  constructor(panel) {
    this.panel = panel;
    this.choose = el("select");
    this.choose.addEventListener("change", () => panel.choosePort(this.choose.value));
    this.summary = el("p", { class: "quiet" });
    this.drawing = el("div");
    this.pairs = el("ul", { class: "pairs", "aria-label": "Load that is shared now" });
    this.beside = new TableBeside("As a table", () => this.asTable());
    const legend = el(
      "p",
      { class: "legend" },
      el("span", {}, el("i", { class: "of-skewed" }), "skewed (S)"),
      el("span", {}, el("i", { class: "of-helper" }), "helper (H)"),
      el("span", {}, el("i"), "no role"),
      el("span", {}, el("i", { class: "of-bar" }), "busy"),
    );
    this.node = el("section", { class: "card workers", "aria-label": "Workers" }, el("div", { class: "bar-title" }, el("h3", { text: "Workers" }), el("label", {}, "input", this.choose)), this.summary, this.drawing, legend, this.pairs, this.beside.node);
  }

  draw({ workers, chosenWorkers }) {
    const ports = workers ?? [];
    const port = this.panel.port();
    if (!port) return;
    this.port = port;
    choices(this.choose, ports.map((each) => [`${each.operator}.${each.port}`, this.panel.label(each.operator, each.port)]), `${port.operator}.${port.port}`);
    this.roles = rolesOf(port);
    const total = port.waiting.reduce((sum, rows) => sum + rows, 0);
    const most = Math.max(0, ...port.waiting);
    const at = port.waiting.indexOf(most);
    const words = { waiting: "waits for its turn", open: "gets rows", ended: "all rows are sent", drained: "every row is processed" };
    this.summary.textContent = `${words[port.state]}; ${count(total)} rows wait${most ? `, ${count(most)} of them for worker ${at}` : ""}`;
    if (port.waiting.length > MOST_COLUMNS) this.drawCells(port, chosenWorkers);
    else this.drawColumns(port, chosenWorkers);
    this.drawPairs(port);
    this.beside.update();
  }

  drawColumns(port, chosen) {
    const workers = port.waiting.length;
    if (!workers) {
      this.drawing.replaceChildren(el("p", { class: "nothing", text: "No reports yet." }));
      return;
    }
    const width = Math.max(240, this.drawing.clientWidth || 500);
    const step = width / workers;
    const bar = Math.max(2, Math.min(46, step * 0.72));
    const most = Math.max(1, ...port.waiting);
    const height = HEIGHT - TOP - BOTTOM;
    const middle = (worker) => step * (worker + 0.5);
    const top = (worker) => HEIGHT - BOTTOM - (height * port.waiting[worker]) / most;
    const nodes = port.waiting.map((rows, worker) => {
      const role = this.roles.get(worker) ?? "none";
      const letter = role === "skewed" ? "S" : role === "helper" ? "H" : "";
      const x = middle(worker) - bar / 2;
      const busy = port.busy[worker] ?? 0;
      return svg(
        "g",
        { "data-worker": worker, "data-role": role },
        svg("rect", { class: `column ${role}${chosen.has(worker) ? " chosen" : ""}`, x, y: top(worker) - 1, width: bar, height: Math.max(1, HEIGHT - BOTTOM - top(worker) + 1), rx: 2 }),
        svg("rect", { class: "busy-back", x, y: HEIGHT - BOTTOM + 4, width: bar, height: 4 }),
        svg("rect", { class: "busy", x, y: HEIGHT - BOTTOM + 4, width: bar * busy, height: 4 }),
        step > 16 || worker % Math.ceil(18 / step) === 0 ? svg("text", { class: "faint", x: middle(worker), y: HEIGHT - 14, "text-anchor": "middle", text: worker }) : null,
        letter && step > 9 ? svg("text", { x: middle(worker), y: HEIGHT - 1, "text-anchor": "middle", "font-weight": "700", text: letter }) : null,
        step > 34 && rows ? svg("text", { class: "faint", x: middle(worker), y: top(worker) - 5, "text-anchor": "middle", text: short(rows) }) : null,
        svg("title", { text: `worker ${worker}: ${count(rows)} rows wait` }),
      );
    });
    const givers = [...new Set(port.pairs.map((pair) => pair.skewed))];
    const arrows = port.pairs.map((pair) => arrow(middle(pair.skewed), middle(pair.helper), top(pair.skewed) - 17, top(pair.helper) - 17, givers.indexOf(pair.skewed), step, pair));
    this.drawing.replaceChildren(
      svg("svg", { class: "drawing", viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": `Rows waiting for ${workers} workers. ${this.summary.textContent}. The table below has them all.` }, ...nodes, ...arrows),
    );
  }

  drawCells(port, chosen) {
    const workers = port.waiting.length;
    const width = Math.max(240, this.drawing.clientWidth || 500);
    const columns = Math.min(workers, Math.max(20, Math.floor(width / 14)));
    const size = width / columns;
    const height = Math.ceil(workers / columns) * size;
    const canvas = this.canvas ?? el("canvas", { class: "heat", role: "img" });
    this.canvas = canvas;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.setAttribute("aria-label", `Rows waiting for ${workers} workers, darker for more. ${this.summary.textContent}. The table below has them all.`);
    if (this.drawing.firstChild !== canvas) this.drawing.replaceChildren(canvas);
    const paint = canvas.getContext("2d");
    const [skewed, helper, none, ground, focus, ink] = ["--skewed", "--helper", "--none", "--ghost", "--focus", "--card"].map((name) => color(this.drawing, name));
    const colors = { skewed, helper, none };
    const most = Math.max(1, ...port.waiting);
    paint.scale(ratio, ratio);
    paint.clearRect(0, 0, width, height);
    paint.font = `700 ${Math.floor(size * 0.62)}px system-ui`;
    paint.textAlign = "center";
    paint.textBaseline = "middle";
    for (let worker = 0; worker < workers; worker += 1) {
      const x = (worker % columns) * size;
      const y = Math.floor(worker / columns) * size;
      const role = this.roles.get(worker) ?? "none";
      paint.globalAlpha = 1;
      paint.fillStyle = ground;
      paint.fillRect(x + 1, y + 1, size - 2, size - 2);
      paint.globalAlpha = role === "none" ? 0.15 + 0.85 * Math.sqrt(port.waiting[worker] / most) : 1;
      paint.fillStyle = colors[role];
      if (port.waiting[worker] || role !== "none") paint.fillRect(x + 1, y + 1, size - 2, size - 2);
      if (role !== "none") {
        paint.globalAlpha = 1;
        paint.fillStyle = ink;
        paint.fillText(role === "skewed" ? "S" : "H", x + size / 2, y + size / 2);
      }
      if (chosen.has(worker)) {
        paint.globalAlpha = 1;
        paint.strokeStyle = focus;
        paint.lineWidth = 2;
        paint.strokeRect(x + 1, y + 1, size - 2, size - 2);
      }
    }
  }

  drawPairs(port) {
    const now = port.pairs.filter((pair) => !pair.over);
    const lines = now.map((pair) => {
      const share = pair.share ? `${percent(pair.share)} of its rows to come` : pair.keys ? `${count(pair.keys)} keys` : "rows that wait";
      return [`${pair.skewed}-${pair.helper}`, `worker ${pair.skewed} gives worker ${pair.helper} ${share}`];
    });
    const ended = port.pairs.length - now.length;
    if (ended) lines.push(["ended", `dotted: ${count(ended)} ${ended === 1 ? "transfer" : "transfers"} that ended`]);
    const text = JSON.stringify(lines);
    if (this.pairs.dataset.text === text) return;
    this.pairs.dataset.text = text;
    this.pairs.hidden = !lines.length;
    this.pairs.replaceChildren(...lines.slice(0, 12).map(([pair, line]) => el("li", { "data-pair": pair, text: line })));
    if (lines.length > 12) this.pairs.append(el("li", { text: `and ${lines.length - 12} more` }));
  }

  asTable() {
    const { port } = this;
    return table(
      `Workers of ${this.panel.label(port.operator, port.port)}`,
      [["worker", true], ["host", true], ["role", false], ["rows waiting", true], ["processed", true], ["own rows so far", true], ["busy", true], ["state", true]],
      port.waiting.map((rows, worker) => [
        cell(worker),
        cell(this.panel.state.flow?.host_of?.[worker] ?? 0),
        this.roles.get(worker) ?? "",
        cell(rows),
        cell(port.processed[worker] ?? 0),
        cell(port.routed[worker] ?? 0),
        percent(port.busy[worker] ?? 0),
        bytes(port.state_bytes[worker] ?? 0),
      ]),
    );
  }
}

function rolesOf(port) {
  const roles = new Map();
  for (const pair of port.pairs) {
    roles.set(pair.helper, "helper");
    roles.set(pair.skewed, "skewed");
  }
  return roles;
}

// Load on its way: up from the skewed worker, along, and down to the helper. Each skewed worker has a line of its own height.
function arrow(from, to, low, end, giver, step, pair) {
  const high = 8 + (giver % 4) * 7;
  const turn = Math.min(7, Math.abs(to - from) / 2) * Math.sign(to - from);
  const tip = Math.max(high + 26, end);
  const share = pair.share ? percent(pair.share) : "";
  return svg(
    "g",
    { "data-arrow": `${pair.skewed}-${pair.helper}`, class: pair.over ? "over" : null },
    svg("path", { class: "arrow", d: `M${from},${Math.max(high + 8, low)} V${high + 6} Q${from},${high} ${from + turn},${high} H${to - turn} Q${to},${high} ${to},${high + 6} V${tip - 7}` }),
    svg("path", { class: "arrow-head", d: `M${to - 5},${tip - 8} L${to + 5},${tip - 8} L${to},${tip} Z` }),
    share && step > 46 ? svg("text", { x: to + 5, y: high + 19, text: share }) : null,
    svg("title", { text: `worker ${pair.skewed} gives worker ${pair.helper} ${share || "rows that wait"}${share ? " of its rows" : ""}` }),
  );
}
