// Keys, or partitions, that have more than their fair part of the rows.

import { el } from "./dom.js";
import { percent } from "./format.js";

export class Hot {
  constructor(panel) {
    this.panel = panel;
    this.body = el("tbody");
    this.nothing = el("p", { class: "nothing", text: "No key and no partition has much more than its fair part." });
    this.table = el(
      "table",
      {},
      el("caption", { text: "Keys and partitions with much more than their fair part of an input's rows" }),
      el("thead", {}, el("tr", {}, ...["keys", "part of the rows"].map((text) => el("th", { scope: "col", text })))),
      this.body,
    );
    const scroll = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Hot keys" }, this.table);
    this.node = el("section", { class: "card hot", "aria-label": "Hot keys" }, el("div", { class: "bar-title" }, el("h3", { text: "Hot keys" })), this.nothing, scroll);
    this.scroll = scroll;
  }

  draw({ hot }) {
    const found = hot ?? [];
    this.nothing.hidden = found.length > 0;
    this.scroll.hidden = !found.length;
    this.body.replaceChildren(
      ...found.map((each) => {
        const bar = el("span", { class: "share" });
        bar.style.width = `${Math.min(1, each.share) * 5}rem`;
        const label = this.panel.label(each.operator, each.port);
        const where = each.what === "key" ? `one key of worker ${each.owner}, ${label}` : `all of worker ${each.owner}, ${label}`;
        return el("tr", {}, el("td", {}, each.name || "not in the result", el("span", { class: "where", text: where })), el("td", {}, bar, ` ${percent(each.share)}`));
      }),
    );
  }
}
