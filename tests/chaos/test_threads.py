"""Whatever moves, and whenever: the result is Spark's. Hosts and sources are threads over the real exchange."""

from __future__ import annotations

from typing import Any

import pytest

from reshape.runtime.host import HostSettings

from ..flows.compare import check
from ..flows.running import Rig, plan_of
from ..flows.threads import Cut
from .brain import Doings
from .cases import chaos_case
from .running import run_chaos

pytestmark = pytest.mark.slow

CASES = range(92)  # every shape of flow twice
RUNS = range(3)  # each under three different storms

total = Doings()


@pytest.mark.parametrize("number", CASES)
def test_a_flow_under_chaos(spark: Any, number: int) -> None:
    case = chaos_case(number)
    rig = Rig(spark, case)
    want = rig.expected()
    flow = rig.flow()
    plan, sources = plan_of(flow), [rig._rows(df) for df in flow._sources]
    settings = HostSettings(case.queue_bytes, case.spill)
    for run in RUNS:
        doings = Doings(1_000 * number + run)
        cut = Cut(doings.seed, case.partitions, case.batch_rows)
        check(case, run_chaos(plan, sources, doings, cut=cut, settings=settings), want)
        total.add(doings)


def test_everything_happened() -> None:
    """Runs after all others of this file."""
    if total.started.total() == 0:
        pytest.skip("no run before this one")
    print(f"started {dict(total.started)}, done {dict(total.done)}, {total.rows_moved:,} queued rows moved")
    assert min(total.done[what] for what in ("hand over", "backlog", "replicate")) > 200
    assert min(total.started[what] for what in ("share", "share with several", "return keys", "cancel")) > 100
