from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reshape.observe.representativeness import Counts, Representativeness, completeness, similarity

ROWS = st.lists(st.integers(0, 10**12), min_size=1, max_size=20)


def counts(*rows: int) -> Counts:
    return np.array(rows, dtype=np.int64)


@pytest.mark.parametrize(
    ("arrived", "processed", "expected"),
    [
        ((26, 7), (26, 7), 1.0),
        ((2600, 700), (26, 7), 1.0),  # a part of everything has the shape of the whole
        ((26, 7), (0, 0), 0.0),  # something came and nothing is shown
        ((0, 0), (0, 0), 1.0),  # nothing came, nothing is wrong
        ((10, 0), (0, 10), 0.0),
        ((75, 25), (50, 50), 0.75),  # a quarter of what is shown is in the wrong place
    ],
)
def test_similarity(arrived: tuple[int, ...], processed: tuple[int, ...], expected: float) -> None:
    assert similarity(counts(*arrived), counts(*processed)) == pytest.approx(expected)


@given(ROWS, st.data())
def test_similarity_is_a_part_and_whole_when_all_is_processed(arrived: list[int], data: st.DataObject) -> None:
    processed = [data.draw(st.integers(0, rows)) for rows in arrived]
    assert -1e-9 <= similarity(counts(*arrived), counts(*processed)) <= 1 + 1e-9
    assert similarity(counts(*arrived), counts(*arrived)) == pytest.approx(1.0)


def test_figure_1_unmitigated() -> None:
    """Six workers of the same speed: what is shown has equal parts, what has come has not."""
    arrived = counts(26, 17, 11, 17, 7, 22)
    assert similarity(arrived, counts(1, 1, 1, 1, 1, 1)) == pytest.approx(
        1 - (9.33 + 0.33 + 0.33 + 5.33) / 100, abs=1e-3
    )


def test_completeness_of_each_partition() -> None:
    done = completeness(counts(100, 50, 0, 10), counts(25, 50, 0, 12))
    # Nothing came: nothing lacks. Reports of workers may be newer than those of routers: never more than all.
    assert done.tolist() == [0.25, 1.0, 1.0, 1.0]


def test_it_says_itself_in_words() -> None:
    assert str(Representativeness(0.834, {"join": 0.834})) == "83% representative of the input so far"
