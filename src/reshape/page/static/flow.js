// The flow as a graph: sources, operators, the result. Operators with a skewed worker are marked.

import { el, svg } from "./dom.js";
import { count, short } from "./format.js";

const WIDE = 190;
const HIGH = 66;
const GAP_X = 46;
const GAP_Y = 18;

export class Flow {
  constructor(panel) {
    this.panel = panel;
    this.drawing = el("div");
    this.words = el("ul", { class: "pairs" });
    const beside = el("details", {}, el("summary", { text: "In words" }), this.words);
    this.node = el("section", { class: "card wide flow", "aria-label": "Flow" }, el("div", { class: "bar-title" }, el("h3", { text: "Flow" })), this.drawing, beside);
    this.made = "";
  }

  draw({ flow, workers }) {
    if (!flow?.operators) return;
    const nodes = this.nodes(flow, workers ?? []);
    const width = Math.max(240, this.drawing.clientWidth || 500);
    const made = JSON.stringify([width, nodes]);
    if (made === this.made) return;
    this.made = made;
    const depth = Math.max(...nodes.map((node) => node.depth));
    const down = width < (depth + 1) * (WIDE + GAP_X) - GAP_X;
    place(nodes, width, down);
    const bottom = Math.max(...nodes.map((node) => node.y + HIGH));
    const right = Math.max(...nodes.map((node) => node.x + node.width));
    const edges = nodes.flatMap((node) => (node.to ? [edge(node, nodes.find((each) => each.id === node.to), down)] : []));
    this.drawing.replaceChildren(
      svg("svg", { class: "drawing", viewBox: `-2 -2 ${Math.max(width, right) + 4} ${bottom + 4}`, role: "img", "aria-label": `The flow: ${nodes.map((node) => `${node.title} ${node.lines.join(" ")}`).join("; ")}` }, ...edges, ...nodes.map(drawn)),
    );
    this.words.replaceChildren(...nodes.map((node) => el("li", { text: `${node.title}: ${node.lines.join(", ")}${node.to ? `; goes to ${nodes.find((each) => each.id === node.to).title}` : ""}` })));
  }

  nodes(flow, ports) {
    const last = flow.operators.length;
    const depthOf = new Map();
    const operators = flow.operators.map((operator) => {
      const inputs = ports.filter((port) => port.operator === operator.id);
      const skewed = [...new Set(inputs.flatMap((port) => port.pairs.map((pair) => pair.skewed)))];
      const done = inputs.reduce((sum, port) => sum + port.processed.reduce((a, b) => a + b, 0), 0);
      const state = skewed.length ? "skewed" : inputs.length && inputs.every((port) => port.state === "drained") ? "drained" : inputs.some((port) => port.state !== "waiting") ? "open" : "";
      const note = skewed.length ? `skewed: worker ${skewed.slice(0, 3).join(", ")}${skewed.length > 3 ? " …" : ""}` : operator.emulated_s ? "emulated cost" : `strategy ${operator.strategy}`;
      return { id: `o${operator.id}`, title: operator.label.replace(/ \(operator \d+\)$/, ""), lines: [`${short(done)} rows`, note], state, warns: skewed.length > 0, to: operator.target === null ? "result" : `o${operator.target[0]}`, number: operator.id };
    });
    const depth = (id) => {
      if (!depthOf.has(id)) {
        const before = [...operators.filter((node) => node.to === id).map((node) => depth(node.id)), ...flow.sources.filter((source) => `o${source.target[0]}` === id).map(() => 0)];
        depthOf.set(id, before.length ? Math.max(...before) + 1 : 0);
      }
      return depthOf.get(id);
    };
    for (const node of operators) node.depth = depth(node.id);
    const sources = flow.sources.map((source) => {
      const to = flow.operators.find((operator) => operator.id === source.target[0]);
      const input = ports.find((port) => port.operator === source.target[0] && port.port === source.target[1]);
      const role = to?.ports[source.target[1]]?.role?.split(",")[0] ?? "";
      return { id: `s${source.id}`, title: `source ${source.id}${role ? ` (${role})` : ""}`, lines: [`read by ${source.reader}`], state: input?.state === "open" ? "open" : input && input.state !== "waiting" ? "drained" : "", to: `o${source.target[0]}`, depth: 0 };
    });
    const end = { id: "result", title: "result", lines: [`${count(flow.columns.length)} columns`], state: "", to: null, depth: Math.max(0, ...operators.map((node) => node.depth)) + 1 };
    return [...sources, ...operators, end].map((node) => ({ ...node, last }));
  }
}

function place(nodes, width, down) {
  const layers = new Map();
  for (const node of nodes) layers.set(node.depth, [...(layers.get(node.depth) ?? []), node]);
  for (const [depth, layer] of layers) {
    layer.forEach((node, at) => {
      if (down) {
        node.width = Math.min(WIDE, (width - 12 * (layer.length - 1)) / layer.length);
        node.x = (width - layer.length * node.width - 12 * (layer.length - 1)) / 2 + at * (node.width + 12);
        node.y = depth * (HIGH + 30);
      } else {
        const rows = Math.max(...[...layers.values()].map((each) => each.length));
        node.width = WIDE;
        node.x = depth * (WIDE + GAP_X);
        node.y = ((rows - layer.length) / 2 + at) * (HIGH + GAP_Y);
      }
    });
  }
}

function edge(from, to, down) {
  const running = from.state === "open" || from.state === "skewed" ? " running" : "";
  if (down) {
    const [x1, y1, x2, y2] = [from.x + from.width / 2, from.y + HIGH, to.x + to.width / 2, to.y];
    return svg("path", { class: `edge${running}`, d: `M${x1},${y1} C${x1},${y1 + 15} ${x2},${y2 - 15} ${x2},${y2}` });
  }
  const [x1, y1, x2, y2] = [from.x + from.width, from.y + HIGH / 2, to.x, to.y + HIGH / 2];
  return svg("path", { class: `edge${running}`, d: `M${x1},${y1} C${x1 + GAP_X / 2},${y1} ${x2 - GAP_X / 2},${y2} ${x2},${y2}` });
}

function drawn(node) {
  const room = Math.floor((node.width - 16) / 6.7);
  const cut = (text) => (text.length > room ? `${text.slice(0, Math.max(3, room - 1))}…` : text);
  return svg(
    "g",
    { class: `node ${node.state}`, "data-node": node.id },
    svg("title", { text: `${node.title}: ${node.lines.join(", ")}` }),
    svg("rect", { x: node.x, y: node.y, width: node.width, height: HIGH, rx: 8 }),
    svg("text", { x: node.x + 10, y: node.y + 21, "font-weight": "600", text: cut(node.title) }),
    ...node.lines.map((line, at) => svg("text", { class: node.warns && at ? "warning" : "faint", x: node.x + 10, y: node.y + 40 + at * 16, text: cut(line) })),
  );
}
