"""What an attempt shows, brought to those that record it: when somebody looks, and for a file every second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from reshape.driver.control_plane import ControlPlane
from reshape.driver.facts import flow_facts, shown_facts
from reshape.observe.charts import Presentation
from reshape.observe.recording import Recorder
from reshape.observe.representativeness import Shown
from reshape.plan.physical import PhysicalPlan
from reshape.scan.scan import Scan

# Workers show something new four times a second.
LOOK_S = 0.25
# A file is read later: it needs no more than this.
FILE_S = 1.0
# Looking takes at most a fiftieth of the time: what is costly to put together is looked at less often.
_PAUSE = 50


class Showing:
    """``steady``: look by itself, for a recorder that nobody watches."""

    def __init__(
        self,
        plan: PhysicalPlan,
        control: ControlPlane,
        shown: Callable[[], Shown | None],
        recorder: Recorder | None,
        presentation: Presentation | None = None,
        *,
        steady: bool,
    ) -> None:
        self._plan = plan
        self._control = control
        self._shown = shown
        self._recorder = recorder
        self._presentation = presentation or Presentation()
        self._lock = threading.Lock()
        self._due = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reshape-showing", daemon=True) if steady else None

    def begin(self, attempt: int, scans: Mapping[int, Scan]) -> None:
        self._control.note("flow", **flow_facts(self._plan, attempt, scans))
        if self._thread is not None:
            self._thread.start()

    def look(self, *, at_once: bool = False) -> bool:
        """Record what is shown now, unless that was done a moment ago; whether there is more to come."""
        with self._lock:
            began = time.monotonic()
            if self._recorder is None or (began < self._due and not at_once):
                return True
            shown = self._shown()
            facts = None if shown is None else shown_facts(self._plan, self._control, shown, self._presentation)
            if facts is not None:
                self._control.note("shown", **facts)
            took = time.monotonic() - began
            self._due = time.monotonic() + max(LOOK_S, _PAUSE * took)
            return shown is not None and not shown.final

    def end(self, text: str, *, failed: bool) -> None:
        """The attempt is over. The last rows may be shown a moment later."""
        self._over.set()
        more = self.look(at_once=True)
        self._control.note("ended", text=text, failed=failed)
        if failed or not more:
            self._close()

    def after_end(self) -> None:
        """A host has reported after the end: perhaps all is shown now."""
        if self._over.is_set() and not self.look(at_once=True):
            self._close()

    def _close(self) -> None:
        if self._recorder is not None:
            self._recorder.close()

    def _run(self) -> None:
        while not self._over.wait(FILE_S):
            self.look()
