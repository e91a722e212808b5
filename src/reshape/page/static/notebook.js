// The cards of a run in the output of a notebook's cell. Sections come as texts of a widget's model, actions go back as messages.

import { el } from "./dom.js";
import { Panel } from "./panel.js";

const SECTIONS = ["flow", "head", "result", "workers"];

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
  root.append(el("style", { text: styles }), panel.node, spoken);
  follow(host);
  const theme = new MutationObserver(() => follow(host));
  theme.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light"] });
  const take = (name) => {
    const text = model.get(name);
    if (text) panel.take({ [name]: JSON.parse(text) });
  };
  const complain = () => (panel.parts.head.problem.textContent = model.get("problem"));
  const listeners = [...SECTIONS.map((name) => [`change:${name}`, () => take(name)]), ["change:problem", complain]];
  for (const [event, listener] of listeners) model.on(event, listener);
  SECTIONS.forEach(take);
  return () => {
    theme.disconnect();
    for (const [event, listener] of listeners) model.off(event, listener);
  };
}
