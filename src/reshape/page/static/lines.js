// Lines over time by uPlot, in the colours of the sheet.

import uPlot from "./vendor/uPlot.esm.js";
import { short } from "./format.js";

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Brings a chart to a new state; makes it if there is none, or if it has become another one.
export function lineChart(box, chart, { label, xs, names = null, series, height = 220, range = null, unit = short }) {
  const width = Math.max(200, Math.floor(box.clientWidth));
  const kind = JSON.stringify([label, series.map((each) => each.label), names !== null, matchMedia("(prefers-color-scheme: dark)").matches]);
  const data = [xs, ...series.map((each) => each.values)];
  if (chart && chart.kind === kind) {
    chart.names = names;
    if (chart.plot.width !== width) chart.plot.setSize({ width, height });
    chart.plot.setData(data);
    return chart;
  }
  chart?.plot.destroy();
  box.replaceChildren();
  const made = { kind, names, plot: null };
  const ink = color("--faint");
  const axis = { stroke: ink, grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line"), width: 1 }, font: "11px system-ui" };
  made.plot = new uPlot(
    {
      width,
      height,
      cursor: { drag: { x: false, y: false } },
      legend: { live: false },
      scales: { x: { time: false }, y: range ? { range } : { range: (_u, low, high) => [Math.min(0, low ?? 0), Math.max(1, high ?? 1) * 1.08] } },
      axes: [
        { ...axis, size: 34, values: (_u, ticks) => ticks.map((tick) => (made.names ? (Number.isInteger(tick) ? (made.names[tick] ?? "") : "") : `${short(tick)}`)) },
        { ...axis, size: 52, values: (_u, ticks) => ticks.map(unit) },
      ],
      series: [
        { label: names ? "" : "at", value: (_u, value) => (value === null ? "" : made.names ? (made.names[value] ?? "") : short(value)) },
        ...series.map((each) => ({ label: each.label, stroke: color(each.color), width: 2, dash: each.dash, points: { show: xs.length < 3 }, value: (_u, value) => (value === null || value === undefined ? "" : unit(value)) })),
      ],
    },
    data,
    box,
  );
  made.plot.root.setAttribute("role", "img");
  made.plot.root.setAttribute("aria-label", label);
  return made;
}
