"""Chaos on Spark itself: brains live in the driver, so a strategy of a test runs there like any other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import reshape

from ..flows.compare import check
from ..flows.running import Rig
from ..flows.steps import build
from .brain import Doings, chaos
from .cases import chaos_case
from .running import REPORT_S, fast_control

pytestmark = pytest.mark.slow

CASES = range(100, 142)
# Emulated cost of a row: without it a flow of a thousand rows is over before anything moves.
ROW_S = 0.001

total = Doings()


@pytest.fixture(scope="module", autouse=True)
def load_did_move() -> Iterator[None]:
    """When all runs of this file were made, load has moved in them."""
    yield
    if total.runs < len(CASES):
        return
    print(f"started {dict(total.started)}, done {dict(total.done)}, {total.rows_moved:,} queued rows moved")
    assert min(total.done[what] for what in ("hand over", "backlog", "replicate")) > 10


@pytest.mark.parametrize("number", CASES)
def test_a_flow_under_chaos(spark: Any, number: int) -> None:
    case = chaos_case(number)
    rig = Rig(spark, case)
    want = rig.expected()
    options = {"hosts": min(case.hosts, 2), "workers": case.workers, "strategy": "chaos", "cost_s_per_row": ROW_S}
    options |= {"report_s": REPORT_S}
    doings = Doings(number)
    with chaos(doings), fast_control():
        flow = build(case.flow, rig._frames, lambda df: reshape.read(df, **options))
        check(case, flow.toDF().toArrow(), want)
    total.add(doings)
