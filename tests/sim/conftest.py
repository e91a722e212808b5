"""Small scenarios and hand-written brains for the engine's tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reshape.control.commands import Command
from reshape.control.events import Event
from reshape.control.profile import OperatorProfile
from reshape.control.routing import RoutingTable
from reshape.control.story import Decision
from reshape.sim.scenario import InputPhase, Scenario, Source, Stage

Reaction = Callable[[Event], list[Command]]


class ScriptedBrain:
    """Remembers what it was told and reacts as the test says."""

    def __init__(self, react: Reaction | None = None, table: RoutingTable | None = None) -> None:
        self._react = react or (lambda event: [])
        self.table = table or RoutingTable()
        self.heard: list[Event] = []

    @property
    def decisions(self) -> list[Decision]:
        return []

    def handle(self, event: Event) -> list[Command]:
        self.heard.append(event)
        return self._react(event)

    def story(self, worker: int) -> list[str]:
        return []

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.heard if isinstance(event, kind)]


@pytest.fixture
def brain() -> type[ScriptedBrain]:
    return ScriptedBrain


@pytest.fixture
def scenario() -> Callable[..., Scenario]:
    """A source with one phase into one operator; keywords of Stage and Scenario go where they belong."""

    def make(
        rows: dict[int, int], *, workers: int = 2, speed: float = 10.0, rows_per_s: float = 100.0, **more: object
    ) -> Scenario:
        stage_fields = {"settings", "state_bytes", "queue_rows", "displayed"}
        of_stage = {name: more.pop(name) for name in list(more) if name in stage_fields}
        profile = more.pop("profile", None) or OperatorProfile("join", workers)
        stage = Stage(profile, speed, **of_stage)  # type: ignore[arg-type]
        return Scenario(Source((InputPhase(rows),), rows_per_s), (stage,), **more)  # type: ignore[arg-type]

    return make
