"""Every query of the suite: the flow's answer is Spark's, without skew, with it, and whatever is moved meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

import reshape
from reshape.catalyst.placement import Placement

from ..chaos.brain import chaos
from ..chaos.running import REPORT_S, fast_control
from ..chaos.transfers import Doings
from .running import Answer, answer_of, check, flow_answer, within_limit
from .suite import QUERIES
from .table import page, shuffled_and_ours
from .tables import KINDS, SKEWED

# Emulated cost of a row under chaos: without it a flow of some thousand rows is over before anything moves.
ROW_S = 0.0001
# Of the operators for which rows move, at least so many run in hosts.
LEAST_SHARE = 0.8
PAGE = Path(__file__).parents[2] / "docs" / "query_suite.md"

Expected = Callable[[str, str], Answer]


def third(kind: str) -> list[str]:
    """A third of the queries, another one for each kind of data."""
    return sorted(Random(f"chaos {kind}").sample(sorted(QUERIES), len(QUERIES) // 3))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", QUERIES)
def test_the_answer_is_sparks(sessions: dict[str, SparkSession], expected: Expected, name: str, kind: str) -> None:
    query = QUERIES[name]
    flow = reshape.flow(query.build(sessions[kind]))
    got = within_limit(sessions[kind], lambda: answer_of(flow))
    check(got, expected(name, kind), query.text, ordered=query.ordered)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in KINDS for name in third(kind)])
def test_the_answer_under_chaos(sessions: dict[str, SparkSession], expected: Expected, name: str, kind: str) -> None:
    query = QUERIES[name]
    with chaos(Doings(sum(name.encode()))), fast_control():
        got = flow_answer(query.build(sessions[kind]), strategy="chaos", cost_s_per_row=ROW_S, report_s=REPORT_S)
    check(got, expected(name, kind), query.text, ordered=query.ordered)


@pytest.fixture(scope="module")
def placements(sessions: dict[str, SparkSession]) -> dict[str, tuple[Placement, ...]]:
    return {name: reshape.flow(query.build(sessions[SKEWED])).placements for name, query in QUERIES.items()}


def test_most_operators_run_in_hosts(placements: dict[str, tuple[Placement, ...]]) -> None:
    shuffled, ours = shuffled_and_ours(placements)
    assert ours >= LEAST_SHARE * shuffled, page(placements)


def test_the_page_is_up_to_date(placements: dict[str, tuple[Placement, ...]]) -> None:
    made = page(placements)
    assert PAGE.read_text() == made, "run: .venv/bin/python -m tests.queries.table > docs/query_suite.md"


def test_the_suite_is_large_and_its_answers_are_not_empty(expected: Expected) -> None:
    assert len(QUERIES) >= 60
    # Null-aware "not in" finds nothing where a key is null.
    empty = {(name, kind) for name in QUERIES for kind in KINDS if not expected(name, kind).rows.num_rows}
    assert empty <= {("h_never_ordered_null_aware", "skewed")}
