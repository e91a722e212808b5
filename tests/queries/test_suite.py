"""Every query of the suite: the flow's answer is Spark's, without skew, with it, and whatever is moved meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from pyspark.sql import SparkSession

from ..chaos.brain import chaos
from ..chaos.running import REPORT_S, fast_control
from ..chaos.transfers import Doings
from .running import Answer, check, flow_answer
from .suite import QUERIES
from .tables import KINDS

# Emulated cost of a row under chaos: without it a flow of some thousand rows is over before anything moves.
ROW_S = 0.0001

Expected = Callable[[str, str], Answer]


def third(kind: str) -> list[str]:
    """A third of the queries, another one for each kind of data."""
    return sorted(Random(f"chaos {kind}").sample(sorted(QUERIES), len(QUERIES) // 3))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", QUERIES)
def test_the_answer_is_sparks(sessions: dict[str, SparkSession], expected: Expected, name: str, kind: str) -> None:
    query = QUERIES[name]
    got = flow_answer(query.build(sessions[kind]))
    check(got, expected(name, kind), query.text, ordered=query.ordered)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in KINDS for name in third(kind)])
def test_the_answer_under_chaos(sessions: dict[str, SparkSession], expected: Expected, name: str, kind: str) -> None:
    query = QUERIES[name]
    with chaos(Doings(sum(name.encode()))), fast_control():
        got = flow_answer(query.build(sessions[kind]), strategy="chaos", cost_s_per_row=ROW_S, report_s=REPORT_S)
    check(got, expected(name, kind), query.text, ordered=query.ordered)


def test_the_suite_is_large_and_its_answers_are_not_empty(expected: Expected) -> None:
    assert len(QUERIES) >= 60
    # Null-aware "not in" finds nothing where a key is null.
    empty = {(name, kind) for name in QUERIES for kind in KINDS if not expected(name, kind).rows.num_rows}
    assert empty <= {("h_never_ordered_null_aware", "skewed")}
