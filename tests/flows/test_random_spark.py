"""Generated flows give Spark's answer on Spark."""

from __future__ import annotations

from typing import Any

import pytest

from .compare import check
from .generate import random_case
from .running import Rig

SEEDS = range(10_000, 10_040)  # other flows than those of the threads


@pytest.mark.parametrize("seed", SEEDS)
def test_a_generated_flow_on_spark(spark: Any, seed: int) -> None:
    rig = Rig(spark, random_case(seed))
    check(rig.case, rig.on_spark(), rig.expected())
