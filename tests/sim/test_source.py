from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reshape.sim.scenario import Bursts, InputPhase
from reshape.sim.source import KeyedInput

phases = st.lists(
    st.dictionaries(st.integers(0, 9), st.integers(0, 1000), min_size=1).filter(lambda rows: sum(rows.values())),
    min_size=1,
    max_size=3,
)


def totals(rows: KeyedInput, points: list[int]) -> dict[int, int]:
    taken: dict[int, int] = {}
    for point in [*sorted(points), rows.total]:
        for key, count in rows.take(min(point, rows.total)):
            assert count > 0
            taken[key] = taken.get(key, 0) + count
    return taken


def wanted(spec: list[dict[int, int]]) -> dict[int, int]:
    sums: dict[int, int] = {}
    for rows in spec:
        for key, count in rows.items():
            if count:
                sums[key] = sums.get(key, 0) + count
    return sums


@given(phases, st.lists(st.integers(0, 3000), max_size=20))
def test_every_key_sends_exactly_its_rows(spec: list[dict[int, int]], points: list[int]) -> None:
    assert totals(KeyedInput([InputPhase(rows) for rows in spec]), points) == wanted(spec)


@given(phases, st.lists(st.integers(0, 3000), max_size=20), st.integers(0, 5))
def test_bursts_keep_the_totals(spec: list[dict[int, int]], points: list[int], seed: int) -> None:
    rows = KeyedInput.in_bursts([InputPhase(rows) for rows in spec], Bursts(0.5, 0.4), 100.0, seed)
    assert totals(rows, points) == wanted(spec)


def test_phases_follow_each_other() -> None:
    rows = KeyedInput([InputPhase({0: 10}), InputPhase({0: 5, 1: 5})])
    assert rows.take(8) == [(0, 8)]
    assert rows.take(14) == [(0, 2), (0, 2), (1, 2)]


def test_bursts_vary_as_much_as_they_should() -> None:
    rows = KeyedInput.in_bursts([InputPhase({0: 10**7, 1: 10**7})], Bursts(0.5, 0.32), 20_000.0, seed=1)
    counts = [dict(rows.take(10_000 * window)).get(0, 0) for window in range(1, 2001)]
    mean = sum(counts) / len(counts)
    deviation = (sum((count - mean) ** 2 for count in counts) / len(counts)) ** 0.5
    assert 0.30 < deviation / mean < 0.34
