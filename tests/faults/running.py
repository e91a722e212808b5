"""One run with a fault in it, and what has become of it: how it ended, and whether anything is left."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from reshape.control.baselines.none import NoMitigation
from reshape.control.brain import Brain
from reshape.control.profile import OperatorProfile
from reshape.control.settings import StrategySettings
from reshape.driver import attempts, execution, service
from reshape.errors import ReshapeError
from reshape.exchange.transport import listener
from reshape.host import host
from reshape.host.moves import peers
from reshape.protocol import link

from ..chaos.brain import strategy
from ..chaos.running import fast_control
from ..chaos.script import STRATEGY, ScriptedBrain
from ..chaos.transfers import Doings
from ..chaos.valves import Valves
from ..endings.remains import ports, until
from .flows import Prepared
from .injecting import Injector
from .machine import FaultyFlow
from .plan import Fault

# Time limits of the product, shortened alike: what waits for one of them in a run waits a tenth or less of it.
_LIMITS = {
    (link, "LOST_AFTER_S"): 3.0,
    (link, "REFUSED_AFTER_S"): 0.4,
    (link, "FAREWELL_S"): 0.5,
    (link, "RETRY_S"): 0.02,
    (link, "POLL_S"): 0.5,
    (service, "POLL_S"): 0.5,
    (attempts, "POLL_S"): 0.5,
    (host, "POLL_S"): 0.5,
    (host, "LOST_AFTER_S"): 3.0,
    (host, "NUMBER_S"): 3.0,
    (execution, "LEAVE_S"): 0.5,
    (execution, "SILENT_S"): 6.0,
    (listener, "GRACE_S"): 0.05,
    (peers, "RECALL_S"): 3.0,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """``error`` is None where the result was exact."""

    error: ReshapeError | None
    tries: int
    seconds: float

    @property
    def name(self) -> str:
        return "exact" if self.error is None else type(self.error).__name__


@contextmanager
def _short_limits() -> Iterator[None]:
    with ExitStack() as stack:
        for (module, name), seconds in _LIMITS.items():
            stack.enter_context(patch.object(module, name, seconds))
        yield


@contextmanager
def _scripted_once(flow: Prepared, valves: Valves) -> Iterator[None]:
    """Brains of the first attempt work through their scripts; those of further ones do nothing."""
    doings = Doings()
    left = sum(len(operator.ports) for operator in flow.plan.operators)

    def build(profile: OperatorProfile, settings: StrategySettings) -> Brain:
        nonlocal left
        left -= 1
        return ScriptedBrain(profile, doings, valves, flow.script) if left >= 0 else NoMitigation(profile, settings)

    with strategy(STRATEGY, build):
        yield


def run(flow: Prepared, fault: Fault | None) -> tuple[Outcome, Injector]:
    """Run a flow with this fault and check its result; an error that is not the flow's own is raised."""
    injector, valves = Injector(fault), Valves()
    started = time.monotonic()
    with _short_limits(), fast_control(), _scripted_once(flow, valves), valves.built_in(), injector.built_in():
        faulty = FaultyFlow(flow, injector, valves)
        if flow.stalled and fault is not None:
            valves.stall()
            injector.on_strike = valves.go_on
        try:
            result = faulty.run()
        except ReshapeError as error:
            return Outcome(error, faulty.tries, time.monotonic() - started), injector
    flow.check(result)
    return Outcome(None, faulty.tries, time.monotonic() - started), injector


class Remains:
    """What is in this process and in a directory before a run has to be all that is there after it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._threads = set(_threads())
        self._ports = set(ports(os.getpid()))
        self._children = _children()

    def check(self) -> None:
        until(f"an end of {self._new_threads()}", lambda: not self._new_threads(), 20.0)
        until("ports to close", lambda: not set(ports(os.getpid())) - self._ports, 20.0)
        assert _children() <= self._children
        assert [path.name for path in self._directory.rglob("*")] == []

    def _new_threads(self) -> list[str]:
        return [thread.name for thread in _threads() if thread not in self._threads]


def _threads() -> list[threading.Thread]:
    """All but those that Arrow makes for its own: Python knows them only by name."""
    return [thread for thread in threading.enumerate() if not isinstance(thread, threading._DummyThread)]


def _children() -> set[int]:
    children: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # the thread has just ended
            children.update(map(int, (task / "children").read_text().split()))
    return children
