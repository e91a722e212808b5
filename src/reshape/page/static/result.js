// The running result as bars or lines, and as a table. Whiskers are the interval of an estimate of the final value.

import { choices, el, reconcile, table, TableBeside } from "./dom.js";
import { cell, percent, short } from "./format.js";
import { lineChart } from "./lines.js";

const MOST_BARS = 40;
const SERIES = 8; // colours of lines
const NUMBER = /^(u?int|float|double|halffloat|decimal)/;

export class Result {
  constructor(panel) {
    this.panel = panel;
    this.x = el("select");
    this.y = el("select");
    this.shape = el("select", {}, el("option", { value: "bars", text: "bars" }), el("option", { value: "lines", text: "line" }));
    for (const select of [this.x, this.y, this.shape]) select.addEventListener("change", () => this.panel.draw("result"));
    this.note = el("p", { class: "quiet" });
    this.bars = el("ul", { class: "bars" });
    this.lines = el("div", { class: "lines" });
    this.legend = el("p", { class: "legend" });
    this.beside = new TableBeside("As a table", () => this.asTable());
    this.nothing = el("p", { class: "nothing", text: "Nothing to show yet." });
    const controls = el("div", { class: "bar-title" }, el("h3", { text: "Result" }), el("label", {}, "of", this.x), el("label", {}, "value", this.y), el("label", {}, "as", this.shape));
    this.node = el("section", { class: "card result", "aria-label": "Result" }, controls, this.note, this.nothing, this.bars, this.lines, this.legend, this.beside.node);
    this.chart = null;
  }

  draw({ result }) {
    const columns = result?.columns ?? [];
    this.nothing.hidden = columns.length > 0;
    if (!columns.length) return;
    this.result = result;
    const numbers = columns.map((column, at) => [String(at), column.name, NUMBER.test(column.type)]);
    const measures = numbers.filter(([, , number]) => number);
    const firstMeasure = (measures.find(([at]) => at !== "0") ?? measures[0] ?? ["-1"])[0];
    choices(this.x, numbers.map(([at, name]) => [at, name]), this.x.value || "0");
    choices(this.y, measures.map(([at, name]) => [at, name]), this.y.value || firstMeasure);
    this.obey(result.chart, columns);
    this.describe(result);
    const rows = this.chosen(result);
    const asLines = this.shape.value === "lines";
    this.bars.hidden = asLines || !rows.length;
    this.lines.hidden = !asLines;
    this.legend.hidden = asLines;
    if (asLines && this.isAsked(result.chart, columns)) this.drawChart(result.chart);
    else if (asLines) this.drawLines(rows);
    else this.drawBars(rows);
    this.beside.update();
  }

  // What the program draws is shown until somebody chooses something else.
  obey(chart, columns) {
    const asked = chart ? JSON.stringify([chart.kind, chart.x, chart.y]) : "";
    if (asked === this.asked) return;
    this.asked = asked;
    if (!chart) return;
    const at = (name) => String(columns.findIndex((column) => column.name === name));
    this.x.value = at(chart.x);
    this.y.value = at(chart.y);
    this.shape.value = chart.kind === "line" ? "lines" : "bars";
  }

  isAsked(chart, columns) {
    return chart?.kind === "line" && columns[Number(this.x.value)]?.name === chart.x && columns[Number(this.y.value)]?.name === chart.y;
  }

  describe(result) {
    const shown = result.rows.length;
    const more = result.more ? `, ${cell(result.more)} more are not shown` : "";
    const trust = result.final ? "The final result." : `${percent(result.trust)} representative of the input so far.`;
    const estimates = result.estimates_note ? ` ${result.estimates_note}` : "";
    this.note.textContent = `${trust} ${cell(shown)} ${shown === 1 ? "row" : "rows"}${more}.${estimates}`;
  }

  // Rows with their name, value, interval and completeness, in an order that stays from update to update.
  chosen(result) {
    const x = Number(this.x.value);
    const y = Number(this.y.value);
    const estimate = result.estimates?.[y];
    const rows = result.rows.map((row, at) => ({
      name: cell(row[x]),
      x: row[x],
      value: Number(row[y] ?? 0),
      complete: result.final ? 1 : (result.completeness?.[at] ?? null),
      low: estimate?.low?.[at] ?? null,
      guess: estimate?.value?.[at] ?? null,
      high: estimate?.high?.[at] ?? null,
    }));
    const byValue = (a, b) => b.value - a.value;
    const byName = (a, b) => (typeof a.x === "number" && typeof b.x === "number" ? a.x - b.x : a.name.localeCompare(b.name, "en", { numeric: true }));
    return this.largest(rows, byValue).sort(byName);
  }

  // Of many rows the largest, and the same ones from update to update: only one that is a tenth larger takes a place.
  largest(rows, byValue) {
    if (rows.length <= MOST_BARS) return rows;
    const kept = this.kept ?? new Set();
    const rank = (row) => row.value * (kept.has(row.name) ? 1.1 : 1);
    rows.sort((a, b) => rank(b) - rank(a) || byValue(a, b));
    const chosen = rows.slice(0, MOST_BARS);
    this.kept = new Set(chosen.map((row) => row.name));
    return chosen;
  }

  drawBars(rows) {
    const most = Math.max(1e-9, ...rows.map((row) => Math.max(row.value, row.high ?? 0)));
    const width = (value) => `${Math.max(0, (100 * value) / most)}%`;
    const seen = new Map();
    const keys = rows.map((row) => {
      seen.set(row.name, (seen.get(row.name) ?? 0) + 1);
      return `${row.name}\u0000${seen.get(row.name)}`;
    });
    reconcile(this.bars, keys, makeBar, (bar, at) => {
      const row = rows[at];
      const [name, track, value] = bar.children;
      name.textContent = row.name;
      name.title = row.name;
      const [ghost, fill, whisker] = track.children;
      fill.style.width = width(row.value);
      ghost.style.width = width(row.guess ?? 0);
      whisker.hidden = row.low === null || row.high === null;
      if (!whisker.hidden) {
        whisker.style.left = width(row.low);
        whisker.style.width = width(row.high - row.low);
      }
      value.textContent = short(row.value);
      const whole = row.complete === null || row.complete >= 0.995 ? "" : `, ${percent(row.complete)} of its rows so far`;
      const guess = row.guess === null ? "" : `, expected ${short(row.guess)}, between ${short(row.low)} and ${short(row.high)}`;
      value.title = `${cell(row.value)}${whole}${guess}`;
      fill.style.opacity = row.complete === null ? "" : String(0.55 + 0.45 * row.complete);
    });
    const guessed = rows.some((row) => row.guess !== null);
    this.legend.replaceChildren(
      ...[["of-bar", "so far; paler: rows that have arrived still wait"], guessed ? ["of-ghost", "expected in the end, with its 95 % interval"] : null]
        .filter(Boolean)
        .map(([kind, text]) => el("span", {}, el("i", { class: kind }), text)),
    );
  }

  drawLines(rows) {
    const numeric = rows.every((row) => typeof row.x === "number");
    const xs = rows.map((row, at) => (numeric ? row.x : at));
    const names = numeric ? null : rows.map((row) => row.name);
    this.chart = lineChart(this.lines, this.chart, { label: "Result as a line", xs, names, series: [{ label: this.y.selectedOptions[0]?.text ?? "value", values: rows.map((row) => row.value), color: "--accent" }] });
  }

  // Lines over all values of x that any of them has; places without a value are no gap, those that are named are.
  drawChart({ x, y, lines }) {
    const known = [...new Set(lines.flatMap((line) => line.x))];
    const numeric = known.every((value) => typeof value === "number");
    known.sort(numeric ? (a, b) => a - b : (a, b) => (String(a) < String(b) ? -1 : 1));
    const place = new Map(known.map((value, at) => [value, at]));
    const series = lines.map((line, number) => {
      const values = new Array(known.length).fill(undefined);
      line.x.forEach((value, at) => (values[place.get(value)] = line.y[at]));
      const gaps = line.gaps.map((at) => [place.get(line.x[at - 1]), place.get(line.x[at])]);
      return { label: line.name ?? y, values, gaps, color: `--series-${number % SERIES}` };
    });
    const broken = lines.filter((line) => line.gaps.length).length;
    this.legend.hidden = !broken;
    if (broken) this.legend.replaceChildren(el("span", { text: `dashed: points in between are not there yet (${broken} of ${lines.length} ${lines.length === 1 ? "line" : "lines"})` }));
    this.chart = lineChart(this.lines, this.chart, { label: `${y} by ${x}`, xs: numeric ? known : known.map((_, at) => at), names: numeric ? null : known.map(String), series });
  }

  asTable() {
    const { columns, rows, completeness, final, estimates } = this.result;
    const numbers = columns.map((column) => NUMBER.test(column.type));
    const heads = columns.map((column, at) => [column.name, numbers[at]]);
    const withPart = completeness && !final;
    const guesses = Object.entries(estimates ?? {}).filter(([, found]) => found.value.some((value) => value !== null));
    const interval = (found, at) => (found.low[at] === null ? "" : `${short(found.value[at])} (${short(found.low[at])} to ${short(found.high[at])})`);
    return table(
      withPart ? "The running result; complete: the part of a row's input that has been processed" : "The result",
      [...heads, ...(withPart ? [["complete", true]] : []), ...guesses.map(([column]) => [`${columns[column].name} in the end, 95 %`, true])],
      rows.map((row, at) => [...row.map(cell), ...(withPart ? [percent(completeness[at])] : []), ...guesses.map(([, found]) => interval(found, at))]),
    );
  }
}

function makeBar() {
  return el(
    "li",
    { class: "row" },
    el("span", { class: "name" }),
    el("span", { class: "track", "aria-hidden": "true" }, el("span", { class: "ghost" }), el("span", { class: "fill" }), el("span", { class: "whisker" })),
    el("span", { class: "value" }),
  );
}
