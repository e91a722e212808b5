"""Generated flows give Spark's answer when hosts and sources are threads over the real exchange. Every second one
is read from files, by the hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .compare import check
from .generate import random_case
from .running import Rig

# The first that have, together, all that test_generate.py asks for; the last one has var_samp.
SEEDS = (*range(80), 132)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_generated_flow_by_threads(spark: Any, seed: int, tmp_path: Path) -> None:
    rig = Rig(spark, random_case(seed), tmp_path if seed % 2 else None)
    check(rig.case, rig.by_threads(), rig.expected())
