"""Intervals hold what they promise, over many inputs whose splits are read in a random order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from reshape.observe.estimates import Estimate, Ratio, RunningSums, Series, Total, students

RUNS = 500
SPLITS = 160
HOSTS = 3
GROUPS = 16
Numbers = npt.NDArray[np.float64]
WHAT: dict[str, Total | Ratio] = {"count": Total(0), "sum": Total(1), "mean": Ratio(1, 0), "ratio": Ratio(2, 1)}


class Input:
    """Splits whose rows are skewed over groups, each split with a mix of its own; amounts of a row are skewed too, and
    an amount that goes with it."""

    def __init__(self, rng: np.random.Generator) -> None:
        share = 1 / np.arange(1, GROUPS + 1) ** 1.2
        mixes = rng.dirichlet(share / share.sum() * 3 * GROUPS, SPLITS)
        rows = rng.multinomial(rng.integers(300, 600, SPLITS), mixes).ravel()  # of each group of each split
        place = np.repeat(np.arange(len(rows)), rows)
        amount = rng.lognormal(0.0, 1.0, len(place))
        part = amount * rng.uniform(0.2, 0.6, len(place))
        sums = [rows.astype(np.float64), *(np.bincount(place, each, len(rows)) for each in (amount, part))]
        self.sums: Numbers = np.stack(sums, axis=1).reshape(SPLITS, GROUPS, 3)  # splits x groups x columns
        self.rows: Numbers = self.sums[:, :, 0].sum(axis=1)
        self.total = float(self.rows.sum())

    @property
    def least_part(self) -> float:
        return HOSTS * float(self.rows.max()) / self.total

    def final(self, what: Total | Ratio) -> Numbers:
        sums: Numbers = self.sums.sum(axis=0)
        if isinstance(what, Total):
            return sums[:, what.column]
        return sums[:, what.over] / sums[:, what.under]


def looks(given: Input, rng: np.random.Generator, until: float) -> tuple[Series, RunningSums]:
    """Hosts read splits in a random order, each at its own pace; looks come in between, wherever they are."""
    series = Series(given.least_part)
    order = iter(rng.permutation(SPLITS).tolist())
    read: Numbers = np.zeros(SPLITS)  # the part of each split
    at = [next(order) for _ in range(HOSTS)]
    pace = rng.uniform(0.2, 0.5, HOSTS)
    of_splits = given.sums.reshape(SPLITS, -1)
    while True:
        for host in range(HOSTS):
            read[at[host]] += pace[host]
            if read[at[host]] >= 1.0:
                read[at[host]] = 1.0
                at[host] = next(order)
        sums = (read @ of_splits).reshape(GROUPS, 3)
        part = float((read * given.rows).sum()) / given.total
        shown = np.flatnonzero(sums[:, 0] > 0)
        running = RunningSums(shown.tolist(), shown % 2, sums[shown], whole=True)
        series.add(np.full(2, part), running)
        if part >= until:
            return series, running


def covered(estimates: tuple[Estimate | None, ...], running: RunningSums, final: Numbers) -> list[bool]:
    return [
        each.low <= final[key] <= each.high
        for key, each in zip(running.keys, estimates, strict=True)
        if each is not None and isinstance(key, int)
    ]


@pytest.fixture(scope="module")
def coverage() -> dict[str, list[bool]]:
    found: dict[str, list[bool]] = {name: [] for name in WHAT}
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        given = Input(rng)
        series, running = looks(given, rng, rng.uniform(0.25, 0.7))
        for name, what in WHAT.items():
            found[name] += covered(series.estimates(what, running), running, given.final(what))
    return found


@pytest.mark.parametrize("name", WHAT)
def test_95_percent_intervals_cover_the_final_value_in_at_least_93(name: str, coverage: dict[str, list[bool]]) -> None:
    held = coverage[name]
    assert len(held) > RUNS * GROUPS / 2, "most groups have an estimate"
    assert np.mean(held) >= 0.93


def one(until: float) -> tuple[Input, Series, RunningSums]:
    rng = np.random.default_rng(7)
    given = Input(rng)
    return given, *looks(given, rng, until)


def test_intervals_become_shorter_the_more_has_been_read() -> None:
    widths = []
    for until in (0.3, 0.6, 0.9):
        _, series, running = one(until)
        [first, *_] = series.estimates(Total(0), running)
        assert first is not None
        assert first.low < first.value < first.high
        widths.append(first.high - first.low)
    assert widths == sorted(widths, reverse=True)


def test_more_confidence_takes_longer_intervals() -> None:
    _, series, running = one(0.4)
    [less, *_], [more, *_] = (series.estimates(Total(0), running, confidence) for confidence in (0.8, 0.99))
    assert less is not None
    assert more is not None
    assert more.low < less.low < less.high < more.high
    assert (less.confidence, more.confidence) == (0.8, 0.99)


def test_when_all_has_been_read_nothing_is_uncertain() -> None:
    series, n = Series(0.05), 20
    for look in range(1, n + 1):
        running = RunningSums(["a"], np.zeros(1, dtype=np.int64), np.array([[float(look * look)]]), whole=True)
        series.add(np.array([look / n]), running)
    [estimate] = series.estimates(Total(0), running)
    assert estimate is not None
    assert (estimate.low, estimate.value, estimate.high) == (400.0, 400.0, 400.0)


def test_nothing_is_said_of_too_few_batches_or_of_groups_that_came_in_a_burst() -> None:
    _, series, running = one(0.02)
    assert set(series.estimates(Total(0), running)) == {None}
    series = Series(0.01)
    for look in range(1, 31):
        burst = 50.0 if look > 20 else 0.0
        running = RunningSums([1, 2], np.zeros(2, dtype=np.int64), np.array([[3.0 * look], [burst]]), whole=True)
        series.add(np.array([look / 100]), running)
    even, at_once = series.estimates(Total(0), running)
    assert even is not None
    assert even.value == pytest.approx(300)
    assert at_once is None


def test_a_group_that_was_not_always_shown_has_no_estimate() -> None:
    """Of many groups only the largest are shown: one that comes later may have been there."""
    series = Series(0.01)
    for look in range(1, 31):
        keys = ["a", "b"] if look > 15 else ["a"]
        values = np.array([[3.0 * look]] * len(keys))
        running = RunningSums(keys, np.zeros(len(keys), dtype=np.int64), values, whole=False)
        series.add(np.array([look / 100]), running)
    first, second = series.estimates(Total(0), running)
    assert first is not None
    assert second is None


def test_looks_are_kept_within_bounds() -> None:
    series = Series(1e-6)
    for look in range(1, 1_000):
        running = RunningSums(["a"], np.zeros(1, dtype=np.int64), np.array([[float(look)]]), whole=True)
        series.add(np.array([look / 1_000]), running)
    assert len(series._looks) < 100
    [estimate] = series.estimates(Total(0), running)
    assert estimate is not None
    assert estimate.value == pytest.approx(1_000)


@pytest.mark.parametrize(("freedom", "wanted"), [(3, 3.182), (5, 2.571), (10, 2.228), (30, 2.042)])
def test_students_t(freedom: int, wanted: float) -> None:
    assert students(0.95, np.array([freedom])) == pytest.approx(wanted, rel=0.01)
