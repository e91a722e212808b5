"""Flows for chaos: every operator alone and in chains, on inputs with heavy hitters that take a while to come."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

from ..flows import generate
from ..flows.data import Column, Input
from ..flows.steps import Case, Combine, Distinct, Group, Join, Map, Repartition, Sort, Step

# By name of the step, joins by their kind. "build" is a join whose kept side is the large one.
ALONE = (
    *("inner", "left", "right", "full", "left_semi", "left_anti"),
    *("build inner", "build left", "build right", "build full", "build left_semi", "build left_anti"),
    *("group", "group", "group", "group", "sort", "sort", "distinct", "intersect", "subtract", "repartition"),
)
CHAINS = (
    "inner, group",
    "left, sort",
    "full, group",
    "right, distinct",
    "left_semi, group",
    "left_anti, sort",
    "group, sort",
    "distinct, group",
    "intersect, inner",
    "subtract, group",
    "union, group",
    "union, sort",
    "repartition, group",
    "sort, group",
    "inner, right, sort",
    "inner, group, sort",
    "full, inner, group",
    "group, inner, sort",
    "distinct, left, group",
    "repartition, full, distinct",
    "intersect, left, sort",
    "subtract, union, group",
)
SHAPES = (*ALONE, *CHAINS)
MOST_TRIES = 10_000
LEAST_QUEUE_BYTES = 20_000


class _WrongShape(Exception):
    """What was generated is not what was asked for."""


class _Generator(generate._Generator):
    """Only the wanted operators, larger inputs."""

    def __init__(self, seed: int, shape: str) -> None:
        super().__init__(seed)
        self._build = shape.startswith("build ")
        self._wanted = shape.removeprefix("build ").split(", ")
        self._steps = 0

    def case(self) -> Case:
        case = super().case()
        names = [name for step in case.flow.steps if (name := _name(step)) is not None]
        if names != self._wanted:
            raise _WrongShape(names)
        return case

    def _size(self) -> int:
        return self._rng.randint(10, 25) if self._build else self._rng.randint(500, 1_300)

    def _add(self, rows: int, columns: tuple[Column, ...], values: int | None = None, like: int | None = None) -> Input:
        if self._inputs and like is None:  # the right side of a join
            rows = self._rng.randint(500, 900) if self._build else max(rows, self._rng.choice((0, 10, 40)))
        made = super()._add(rows, columns, values or self._rng.choice((6, 14, 40, 300)), like)
        if made.hitter == 0.0 and self._rng.random() < 0.7:
            made = replace(made, hitter=self._rng.uniform(0.3, 0.7))
            self._inputs[-1] = made
        return made

    def _step(self, columns: tuple[Column, ...], rows: int, first: bool) -> tuple[Step, tuple[Column, ...], int]:
        if self._steps == len(self._wanted):
            raise _WrongShape(self._steps)
        wanted = self._wanted[self._steps]
        self._steps += 1
        kind = wanted if wanted in generate._OPERATORS else "join"
        try:
            with patch.dict(generate._OPERATORS, {kind: 1}, clear=True):
                return super()._step(columns, rows, first)
        except (KeyError, IndexError):  # these columns cannot be compared
            raise _WrongShape(kind) from None


def chaos_case(seed: int) -> Case:
    """The flow of a seed; shapes come in turn."""
    shape = SHAPES[seed % len(SHAPES)]
    for trial in range(MOST_TRIES):
        generator = _Generator(seed * MOST_TRIES + trial, shape)
        try:
            case = generator.case()
        except _WrongShape:
            continue
        rng = generator._rng
        hosts = rng.choice((1, 2, 2, 3))
        return replace(
            case,
            hosts=hosts,
            workers=rng.randint(max(3, hosts), 5),
            partitions=rng.randint(3, 5),
            # What costs most are tiny batches, each of which is sent, kept on disk and joined by itself.
            batch_rows=rng.choice((120, 250)),
            queue_bytes=max(case.queue_bytes, LEAST_QUEUE_BYTES),
        )
    raise AssertionError(f"no flow like {shape!r} in {MOST_TRIES} tries")


def _name(step: Step) -> str | None:
    match step:
        case Join():
            return step.how
        case Group():
            return "group"
        case Sort():
            return "sort"
        case Distinct():
            return "distinct"
        case Combine():
            return step.kind
        case Repartition():
            return "repartition"
        case Map():
            return None
