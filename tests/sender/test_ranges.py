"""A router of a sort keeps rows until there are bounds, and does not wait for them when the flow has ended."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from reshape.errors import FlowFailed
from reshape.exchange.router import Router
from reshape.kernels.ordering import Ordering, SortKey
from reshape.sender.ranges import RangeRouter

ROWS = pa.record_batch({"v": pa.array([3, 1, 2], pa.int64())})


def never(_: object) -> Router:
    raise AssertionError("no bounds, no router")


def test_a_router_without_bounds_wakes_when_the_flow_ends() -> None:
    offered: list[pa.RecordBatch] = []
    router = RangeRouter(Ordering((SortKey(0, True, True),)), never, offered.append)
    router.route(ROWS)
    router.flush()
    assert len(offered) == 1
    assert router.waiting
    ending = threading.Timer(0.05, router.give_up, ("worker 3 failed",))
    ending.start()
    with pytest.raises(FlowFailed, match="worker 3 failed"):
        router.await_bounds()
    router.flush()  # nothing can be sent, and nothing is
    assert router.waiting
