// The cards of a run in the output of a notebook's cell. Sections come as texts of a widget's model, actions go back as messages.

import { el } from "./dom.js";
import { Panel } from "./panel.js";

const SECTIONS = ["flow", "head", "result", "workers"];
// The kernel tells something twice a second. A view that was saved, or whose kernel is gone, is told nothing.
const SILENT_MS = 10_000;
const SILENT = "Nothing comes from the kernel: this is how the query stood when it was last heard of. Buttons may do nothing. Run the cell again for a live view.";

// The notebook's own theme, where it has one, and not the system's.
function follow(host) {
  const light = document.body.dataset.jpThemeLight;
  host.style.colorScheme = light === undefined ? "" : light === "true" ? "light" : "dark";
}

export function view(model, node, styles) {
  const host = node.appendChild(el("div", { class: "reshape-view" }));
  const root = host.attachShadow({ mode: "open" });
  const spoken = el("p", { class: "unseen", role: "status", "aria-live": "polite" });
  const act = async (action, value) => model.send({ action, value });
  const panel = new Panel(0, (text) => (spoken.textContent = text), act, ["head", "result", "workers"]);
  const silent = el("p", { class: "problem", role: "alert" });
  root.append(el("style", { text: styles }), silent, panel.node, spoken);
  let timer;
  const hear = () => {
    clearTimeout(timer);
    silent.textContent = "";
    timer = setTimeout(() => {
      if (panel.state.head?.active ?? true) silent.textContent = SILENT;
    }, SILENT_MS);
  };
  hear();
  follow(host);
  const theme = new MutationObserver(() => follow(host));
  theme.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light"] });
  const take = (name) => {
    const text = model.get(name);
    if (text) panel.take({ [name]: JSON.parse(text) });
  };
  const complain = () => (panel.parts.head.problem.textContent = model.get("problem"));
  const listeners = [...SECTIONS.map((name) => [`change:${name}`, () => take(name)]), ["change:problem", complain], ["change:told", hear]];
  for (const [event, listener] of listeners) model.on(event, listener);
  SECTIONS.forEach(take);
  return () => {
    clearTimeout(timer);
    theme.disconnect();
    for (const [event, listener] of listeners) model.off(event, listener);
  };
}
