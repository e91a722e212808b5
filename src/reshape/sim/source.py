"""How input grows, key by key, in whole rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from random import Random

from reshape.sim.scenario import Bursts, InputPhase

Group = list[tuple[int, int]]  # (key, rows), all of one moment


class KeyedInput:
    """The rows of some phases by progress: after ``p`` rows of a phase a key has sent the floor of its share.

    Flooring each key by itself never takes a row back, and is exact at the end of each phase; in between the
    sum lags behind by less than one row per key.
    """

    def __init__(self, phases: Sequence[InputPhase]) -> None:
        self.total = sum(phase.total for phase in phases)
        self.keys = sorted({key for phase in phases for key in phase.rows})
        self._stretches = [_Stretch(phase) for phase in phases]
        self._index = 0
        self._before = 0  # rows of the phases that are over

    @classmethod
    def in_bursts(cls, phases: Sequence[InputPhase], bursts: Bursts, rows_per_s: float, seed: int) -> KeyedInput:
        """The same rows, with the rate of each key going up and down."""
        random = Random(seed)
        made = cls(phases)
        made._stretches = [_Waves(phase, bursts.period_s * rows_per_s, bursts.variation, random) for phase in phases]
        return made

    def take(self, progress: int) -> Group:
        """What each key sends up to this progress, in rows since the start, beyond what was taken before."""
        group: Group = []
        while self._index < len(self._stretches):
            stretch = self._stretches[self._index]
            inside = min(progress - self._before, stretch.total)
            group += stretch.take(inside)
            if inside < stretch.total:
                break
            self._before += stretch.total
            self._index += 1
        return group


class _Stretch:
    """One phase at a constant rate per key."""

    def __init__(self, phase: InputPhase) -> None:
        self.total = phase.total
        self._rows = [(key, rows) for key, rows in phase.rows.items() if rows]
        self._sent = [0] * len(self._rows)

    def take(self, progress: int) -> Group:
        total = self.total
        reached = [rows * progress // total for _, rows in self._rows]
        return self._up_to(reached)

    def _up_to(self, reached: list[int]) -> Group:
        sent, self._sent = self._sent, reached
        return [
            (key, now - before) for (key, _), now, before in zip(self._rows, reached, sent, strict=True) if now > before
        ]


class _Waves(_Stretch):
    """One phase in bursts. Each key follows its own running sum of gamma factors, scaled to its total."""

    def __init__(self, phase: InputPhase, period_rows: float, variation: float, random: Random) -> None:
        super().__init__(phase)
        self._period = period_rows
        shape, scale = variation**-2, variation**2
        periods = ceil(self.total / period_rows)
        self._factors = [[random.gammavariate(shape, scale) for _ in range(periods)] for _ in self._rows]
        self._passed = [0.0] * len(self._rows)  # sum of the factors of the periods that are over
        self._period_index = 0
        # The last period may be cut short by the end of the phase.
        last = self.total / period_rows - (periods - 1)
        self._sums = [sum(factors[:-1]) + factors[-1] * last for factors in self._factors]

    def take(self, progress: int) -> Group:
        if progress >= self.total:
            return self._up_to([rows for _, rows in self._rows])
        position = progress / self._period
        while self._period_index + 1 <= position:
            for index, factors in enumerate(self._factors):
                self._passed[index] += factors[self._period_index]
            self._period_index += 1
        part = position - self._period_index
        reached = [
            max(sent, int(rows * (passed + part * factors[self._period_index]) / total))
            for (_, rows), sent, passed, factors, total in zip(
                self._rows, self._sent, self._passed, self._factors, self._sums, strict=True
            )
        ]
        return self._up_to([min(now, rows) for now, (_, rows) in zip(reached, self._rows, strict=True)])
