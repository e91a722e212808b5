"""Generated flows give Spark's answer on Spark. Every second one is read from files, by the hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .compare import check
from .generate import random_case
from .running import Rig

SEEDS = range(10_000, 10_040)  # other flows than those of the threads


@pytest.mark.parametrize("seed", SEEDS)
def test_a_generated_flow_on_spark(spark: Any, seed: int, tmp_path: Path) -> None:
    rig = Rig(spark, random_case(seed), tmp_path if seed % 2 else None)
    check(rig.case, rig.on_spark(), rig.expected())
