// Lines by uPlot, in the colours of the sheet.

import { color } from "./dom.js";
import uPlot from "./vendor/uPlot.esm.js";
import { short } from "./format.js";

// From a point to the next one, by their places in xs: drawn dashed, and not as a part of the line.
function missing(made, plot) {
  const { ctx } = plot;
  ctx.save();
  ctx.setLineDash([3 * devicePixelRatio, 4 * devicePixelRatio]);
  ctx.lineWidth = 2 * devicePixelRatio;
  ctx.globalAlpha = 0.6;
  for (const [number, each] of made.series.entries()) {
    ctx.strokeStyle = made.colors[number];
    for (const [from, to] of each.gaps ?? []) {
      ctx.beginPath();
      ctx.moveTo(plot.valToPos(made.xs[from], "x", true), plot.valToPos(each.values[from], "y", true));
      ctx.lineTo(plot.valToPos(made.xs[to], "x", true), plot.valToPos(each.values[to], "y", true));
      ctx.stroke();
    }
  }
  ctx.restore();
}

// Brings a chart to a new state; makes it if there is none, or if it has become another one.
export function lineChart(box, chart, { label, xs, names = null, series, height = 220, range = null, unit = short }) {
  const width = Math.max(200, Math.floor(box.clientWidth));
  const ink = color(box, "--faint");
  const kind = JSON.stringify([label, series.map((each) => each.label), names !== null, ink]);
  const data = [xs, ...series.map((each) => each.values)];
  if (chart && chart.kind === kind) {
    Object.assign(chart, { names, xs, series });
    if (chart.plot.width !== width) chart.plot.setSize({ width, height });
    chart.plot.setData(data);
    return chart;
  }
  chart?.plot.destroy();
  box.replaceChildren();
  const colors = series.map((each) => color(box, each.color));
  const made = { kind, names, xs, series, colors, plot: null };
  const faint = { stroke: color(box, "--line"), width: 1 };
  const axis = { stroke: ink, grid: faint, ticks: faint, font: "11px system-ui" };
  const cut = (plot, number) => (made.series[number - 1].gaps ?? []).map((gap) => gap.map((at) => Math.round(plot.valToPos(made.xs[at], "x", true))));
  made.plot = new uPlot(
    {
      width,
      height,
      cursor: { drag: { x: false, y: false } },
      legend: { live: false },
      hooks: { draw: [(plot) => missing(made, plot)] },
      scales: { x: { time: false }, y: range ? { range } : { range: (_u, low, high) => [Math.min(0, low ?? 0), Math.max(1, high ?? 1) * 1.08] } },
      axes: [
        { ...axis, size: 34, values: (_u, ticks) => ticks.map((tick) => (made.names ? (Number.isInteger(tick) ? (made.names[tick] ?? "") : "") : `${short(tick)}`)) },
        { ...axis, size: 52, values: (_u, ticks) => ticks.map(unit) },
      ],
      series: [
        { label: names ? "" : "at", value: (_u, value) => (value === null ? "" : made.names ? (made.names[value] ?? "") : short(value)) },
        ...series.map((each, number) => ({ label: each.label, stroke: colors[number], width: 2, dash: each.dash, gaps: cut, points: { show: xs.length < 3 }, value: (_u, value) => (value === null || value === undefined ? "" : unit(value)) })),
      ],
    },
    data,
    box,
  );
  made.plot.root.setAttribute("role", "img");
  made.plot.root.setAttribute("aria-label", label);
  return made;
}
