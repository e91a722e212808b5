// How the load and the trust were before: lines over the whole run, old times thinned out.

import { el, table, TableBeside } from "./dom.js";
import { cell, percent, seconds } from "./format.js";
import { lineChart } from "./lines.js";

export class History {
  constructor(panel) {
    this.panel = panel;
    this.load = el("div", { class: "lines" });
    this.trust = el("div", { class: "lines" });
    this.about = el("p", { class: "quiet" });
    this.nothing = el("p", { class: "nothing", text: "No reports yet." });
    this.beside = new TableBeside("As a table", () => this.asTable());
    this.node = el("section", { class: "card history", "aria-label": "Over time" }, el("div", { class: "bar-title" }, el("h3", { text: "Over time" })), this.about, this.nothing, this.load, this.trust, this.beside.node);
    this.charts = [null, null];
  }

  draw({ history }) {
    const port = this.panel.port();
    const of = history?.ports?.find((each) => each.operator === port?.operator && each.port === port?.port);
    const trust = history?.trust;
    this.of = of;
    this.nothing.hidden = Boolean(of?.seconds?.length);
    this.load.hidden = !of?.seconds?.length;
    this.trust.hidden = !trust?.seconds?.length;
    this.about.textContent = port ? `Rows that wait for workers of ${this.panel.label(port.operator, port.port)}, in seconds of the run` : "";
    if (!this.load.hidden) {
      this.charts[0] = lineChart(this.load, this.charts[0], {
        label: "Rows waiting over time",
        height: 170,
        xs: of.seconds,
        series: [
          { label: "most loaded worker", values: of.most, color: "--skewed" },
          { label: "mean of all", values: of.mean, color: "--none", dash: [5, 4] },
        ],
      });
    }
    if (!this.trust.hidden) {
      this.charts[1] = lineChart(this.trust, this.charts[1], {
        label: "How representative the shown result is, over time",
        height: 120,
        xs: trust.seconds,
        range: [0, 1],
        unit: percent,
        series: [{ label: "representative", values: trust.trust, color: "--accent" }],
      });
    }
    this.beside.update();
  }

  asTable() {
    const { seconds: at = [], most = [], mean = [], processed = [] } = this.of ?? {};
    const step = Math.max(1, Math.ceil(at.length / 60));
    const rows = at.map((_, index) => index).filter((index) => index % step === 0 || index === at.length - 1);
    return table(
      "Rows waiting over time",
      [["time", true], ["most loaded worker", true], ["mean", true], ["rows processed", true]],
      rows.map((index) => [seconds(at[index]), cell(most[index]), cell(Math.round(mean[index])), cell(processed[index])]),
    );
  }
}
