"""Chaos on Spark itself: brains live in the driver, so a strategy of a test runs there like any other."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

import reshape
from reshape.flows import Flow

from ..flows.compare import check
from ..flows.running import Rig
from ..flows.steps import build
from .brain import chaos
from .cases import chaos_case
from .running import REPORT_S, fast_control
from .transfers import Doings

# One of each three shapes; the threads have them all.
CASES = range(100, 142, 3)
# Emulated cost of a row: without it a flow of a thousand rows is over before anything moves.
ROW_S = 0.001


@pytest.mark.parametrize("number", CASES)
def test_a_flow_under_chaos(spark: SparkSession, number: int) -> None:
    case = chaos_case(number)
    rig = Rig(spark, case)
    want = rig.expected()
    doings = Doings(number)

    def read(df: DataFrame) -> Flow:
        spread = reshape.flow(df, hosts=min(case.hosts, 2), workers=case.workers, joins="all")
        return spread.options(strategy="chaos", cost_s_per_row=ROW_S, report_s=REPORT_S)

    with chaos(doings), fast_control():
        flow = build(case.flow, rig.frames, read)
        check(case, flow.toDF().toArrow(), want)
