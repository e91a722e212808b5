"""Values of results as JSON has them, and what is recorded of a run that threads run."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from reshape.driver.facts import SHOWN_ROWS, plain, shown_facts
from reshape.observe.charts import Presentation
from reshape.observe.estimates import Estimate
from reshape.observe.representativeness import Representativeness, Shown
from reshape.operators.aggregates.counts import CountAll
from reshape.operators.group_by import GroupBySpec
from reshape.plan.nodes import OperatorNode, SourceNode
from reshape.plan.planner import Planner

SCHEMA = pa.schema({"k": pa.string()})
PLAN = Planner().plan(OperatorNode((SourceNode(0, SCHEMA),), GroupBySpec(SCHEMA, (0,), (CountAll("n"),))), "f", 1, 4)


class NoControl:
    """As much of a control plane as is asked for."""

    ports = ((0, 0),)


def facts_of(table: pa.Table, **more: Any) -> dict[str, Any]:
    shown = Shown(table, None, Representativeness(0.5, {"group by": 0.5}), 1.0, **{"final": False, **more})
    facts = shown_facts(PLAN, NoControl(), shown, Presentation())  # type: ignore[arg-type]
    assert facts is not None
    assert json.loads(json.dumps(facts, allow_nan=False)) is not None
    return facts


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (None, None),
        (True, True),
        (5, 5),
        (2**53, 2**53),
        (2**60, str(2**60)),
        (-(2**60), str(-(2**60))),
        (0.5, 0.5),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (Decimal("1.25"), 1.25),
        (Decimal("NaN"), "NaN"),
        (date(2026, 1, 2), "2026-01-02"),
        (datetime(2026, 1, 2, 3, tzinfo=UTC), "2026-01-02T03:00:00+00:00"),
        (timedelta(seconds=90), "0:01:30"),
        (b"\x00\xff", "00ff"),
        ("x" * 1_000, "x" * 200),
        ([1, 2], "[1, 2]"),
    ],
)
def test_values_become_what_json_and_browsers_can_hold(value: object, wanted: object) -> None:
    assert plain(value) == wanted


def test_of_many_rows_the_largest_are_shown_and_the_others_counted() -> None:
    numbers = np.random.default_rng(1).permutation(1_000)
    table = pa.table({"k": pa.array([f"key {number}" for number in numbers]), "n": pa.array(numbers)})
    facts = facts_of(table, left_out=7)
    assert len(facts["rows"]) == SHOWN_ROWS
    assert {row[1] for row in facts["rows"]} == set(range(1_000 - SHOWN_ROWS, 1_000))
    assert facts["more"] == 1_000 - SHOWN_ROWS + 7
    (named,) = facts["names"]
    assert named["keys"] == [row[0] for row in facts["rows"]]
    assert set(named["owners"]) == {0, 1, 2, 3}


def test_estimates_follow_their_rows() -> None:
    table = pa.table({"k": ["a", "b"], "n": [1, 2]})
    estimates = {"n": (Estimate(10.0, 8.0, 12.0, 0.95), None), "other": "its order is not random"}
    facts = facts_of(table, estimates=estimates)
    assert facts["estimates"] == {"1": {"value": [10.0, None], "low": [8.0, None], "high": [12.0, None]}}
    assert facts["estimates_note"] == ""
    facts = facts_of(table, estimates={"n": "its order is not random"})
    assert facts["estimates_note"] == "No estimate of final values: its order is not random."
    assert "estimates" not in facts_of(table, estimates=estimates, final=True)


def test_a_result_without_numbers_or_with_a_name_twice_is_shown_as_far_as_it_can_be() -> None:
    table = pa.table({"k": [f"key {number}" for number in range(SHOWN_ROWS + 1)]})
    assert len(facts_of(table)["rows"]) == SHOWN_ROWS
    twice = pa.table([pa.array(["a"]), pa.array([1])], names=["k", "k"])
    assert facts_of(twice)["rows"] == [["a", 1]]
