"""The page's own cards as a widget. What it shows comes over the kernel's connection: browsers need no other."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import anywidget
import traitlets

STATIC = files("reshape.page") / "static"
MODULES = (
    *("dom", "flow", "format", "head", "history", "hot", "lines", "notebook", "panel", "result", "timeline", "workers"),
    "vendor/uPlot.esm",
)
STYLES = ("vendor/uPlot.min.css", "page.css")
# A front end gets one text and no files: modules become addresses of their own there, as import wants them.
LOADER = """
const MODULES = $modules;
const STYLES = $styles;
const made = new Map();
function address(name) {
  if (!made.has(name)) {
    const source = MODULES[name].replaceAll(/from "\\.\\/([\\w./]+)"/g, (_, other) => `from "${address(other)}"`);
    made.set(name, URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  }
  return made.get(name);
}
export default {
  async render({ model, el }) {
    const { view } = await import(address("notebook.js"));
    return view(model, el, STYLES);
  },
};
"""


def script() -> str:
    """Everything that the front end needs, in one text."""
    modules = {f"{name}.js": (STATIC / f"{name}.js").read_text() for name in MODULES}
    styles = "\n".join((STATIC / name).read_text() for name in STYLES)
    return LOADER.replace("$modules", json.dumps(modules), 1).replace("$styles", json.dumps(styles), 1)


class QueryWidget(anywidget.AnyWidget):
    """Sections of a run as JSON texts: each is sent when it has changed, and a browser that comes back gets all."""

    _esm = script()
    head = traitlets.Unicode("").tag(sync=True)
    result = traitlets.Unicode("").tag(sync=True)
    workers = traitlets.Unicode("").tag(sync=True)
    flow = traitlets.Unicode("").tag(sync=True)
    told = traitlets.Int(0).tag(sync=True)
    problem = traitlets.Unicode("").tag(sync=True)

    def tell(self, sections: dict[str, str]) -> None:
        """Bring it up to date, in one message. There is one also when nothing is new: then it is known to be live."""
        with self.hold_sync():
            self.told += 1
            for name in ("flow", "head", "result", "workers"):
                setattr(self, name, sections.get(name, ""))

    def bundle(self) -> dict[str, Any]:
        """What a cell's output holds of it."""
        found = self._repr_mimebundle_()
        data = found[0] if isinstance(found, tuple) else found
        return dict(data or {})
