"""Every kind of transfer, alone and on top of another one, at every operator: each of them for certain. No JVM."""

from __future__ import annotations

import pytest

from .running import run_script
from .samples import SAMPLES
from .script import everything, rows_go_home_alone
from .transfers import Doings

BY_KEYS = {"return keys", "cancel", "cancel a chain", "cancel what returns", "move keys", "move on"}
BY_BUCKETS = {"move mini-partitions", "return mini-partitions"}
BY_RANGES = ("sort", "window", "window of all rows")  # they have no mini-partitions
BY_RECORDS = {"share", "share with several", "unshare", "backlog"}


@pytest.mark.parametrize("name", SAMPLES)
def test_every_kind_of_transfer(name: str) -> None:
    sample, doings = SAMPLES[name](), Doings()
    sample.check(run_script(sample, everything, doings))
    wanted = BY_KEYS | (set() if name in BY_RANGES else BY_BUCKETS)
    if not name.startswith("ordered"):
        wanted |= BY_RECORDS
    if name in ("inner join", "full join"):
        wanted |= {"replicate"}
    assert wanted <= set(doings.started)
    assert doings.rows_moved > 0 or name.startswith("ordered")
    assert not doings.failed, doings.reasons


@pytest.mark.parametrize("name", ["group", "combined group", "sort", "distinct"])
def test_rows_that_come_home_without_their_state(name: str) -> None:
    sample, doings = SAMPLES[name](), Doings()
    sample.check(run_script(sample, rows_go_home_alone, doings))
    assert doings.rows_moved > 0
    assert not doings.failed, doings.reasons
