"""A run in the output of a notebook's cell. While it runs that is a widget; when it has ended, plain HTML takes its
place, which needs no kernel."""

from __future__ import annotations

import contextvars
import json
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from reshape.errors import ReshapeError
from reshape.notebook.saved import saved_html
from reshape.observe.charts import Chart
from reshape.page.feed import RunFeed
from reshape.page.runs import Watched

if TYPE_CHECKING:
    from reshape.notebook.widget import QueryWidget

# Two updates a second, as there are records of progress: each passes the kernel, the server and maybe a long line.
UPDATE_S = 0.5
_HINT = "A live view needs a package that is not there: pip install 'reshape[notebook]'"
_EARLY = (
    "This is how it stood when the cell was executed: it was saved while the query still ran, and nothing here "
    "changes. Run the cell again for a live view."
)
# Views of runs that have ended: a browser that is reloaded asks for them. Older ones are forgotten.
_ENDED: deque[QueryWidget] = deque()
_MOST_ENDED = 16
# The last rows may be shown a moment after the end.
_LAST_LOOKS = 10


def in_notebook() -> bool:
    """Is this a kernel, whose outputs are shown by a front end?"""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return shell is not None and hasattr(shell, "kernel")


def show(run: Watched, chart: Callable[[], Chart | None]) -> None:
    """Show a run in the cell that is executed now. ``chart``: what is drawn of it at a moment."""
    front: Any = import_module("IPython.display")  # without types
    shown = _View(run, chart)
    context = _of_no_request()
    widget = context.run(shown.widget) if run.active else None
    if widget is None:
        front.display(shown.saved("" if not run.active else _HINT), raw=True)
        return
    output = front.display({**widget.bundle(), **shown.saved(_EARLY)}, raw=True, display_id=True)
    widget.on_msg(shown.asked)
    live = threading.Thread(
        target=context.run, args=(shown.follow, widget, output), name="reshape-notebook", daemon=True
    )
    live.start()


def _of_no_request() -> contextvars.Context:
    """Where messages are no answers. ipykernel 7 brings what buttons of a widget say to the shell whose request the
    widget answered last. That would be the main one, which may be busy with a cell that waits for the query's end;
    without such a request the front end chooses, and it has a shell for widgets."""
    context = contextvars.copy_context()
    request = getattr(sys.modules["IPython"].get_ipython().kernel, "_shell_parent", None)
    if isinstance(request, contextvars.ContextVar):
        context.run(request.set, {})
    return context


class _View:
    def __init__(self, run: Watched, chart: Callable[[], Chart | None]) -> None:
        self._run = run
        self._chart = chart
        self._feed = RunFeed(run)

    def widget(self) -> QueryWidget | None:
        """None where its package is not there."""
        try:
            from reshape.notebook.widget import QueryWidget
        except ImportError:
            return None
        made = QueryWidget()
        self._feed.refresh()
        made.tell(self._feed.texts())
        return made

    def saved(self, hint: str = "") -> dict[str, str]:
        """What stays of it in a file, as it is now."""
        self._feed.refresh()
        sections = {name: json.loads(text) for name, text in self._feed.texts().items()}
        html = saved_html(sections, self._chart(), hint)
        return {"text/html": html, "text/plain": f"{self._run.name}: {self._run.status}"}

    def follow(self, widget: QueryWidget, output: Any) -> None:
        """Until the run has ended: then what is saved takes the place of what was live."""
        looks_left = _LAST_LOOKS
        while looks_left and not self._is_told():
            time.sleep(UPDATE_S)
            looks_left -= not self._run.active
            self._feed.refresh()
            widget.tell(self._feed.texts())
        output.update(self.saved(), raw=True)
        widget.on_msg(self.asked, remove=True)  # it stays, but the query and its rows need not
        _ENDED.append(widget)
        while len(_ENDED) > _MOST_ENDED:
            _ENDED.popleft().close()

    def _is_told(self) -> bool:
        head = json.loads(self._feed.texts().get("head", "null")) or {}
        return not head.get("active", True) and (head["final"] or not head["status"].startswith("done"))

    def asked(self, widget: QueryWidget, message: dict[str, Any], _buffers: object) -> None:
        """A button was pressed. Stopping takes a moment, in which the kernel is to hear other things."""
        action = message.get("action")
        if action in self._run.actions:
            threading.Thread(target=self._act, args=(widget, action), name="reshape-notebook-act", daemon=True).start()

    def _act(self, widget: QueryWidget, action: str) -> None:
        try:
            self._run.act(action)
        except (ReshapeError, ValueError, OSError) as error:
            widget.problem = str(error)
