"""Bounds of sorts: made of the samples of all routers that have rows by then, and the same for all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pyarrow as pa

from reshape.driver.control_plane import PortId
from reshape.driver.port_control import Post
from reshape.plan.physical import PhysicalPlan
from reshape.protocol.orders import UseBounds
from reshape.sender.ranges import agree

# Routers that start within this time of the first one have a say in the bounds of a sort.
GATHER_S = 0.3


class SortBounds:
    """``fail`` is called with where and why when no bounds can be made."""

    def __init__(self, plan: PhysicalPlan, post: Post, fail: Callable[[str, str], None]) -> None:
        self._plan = plan
        self._post = post
        self._fail = fail
        self._lock = threading.Lock()
        self._samples: dict[PortId, list[pa.RecordBatch]] = {}

    def sampled(self, port: PortId, rows: pa.RecordBatch) -> None:
        """A router has rows for a sort; soon after the first one, bounds are made of all samples."""
        with self._lock:
            samples = self._samples.setdefault(port, [])
            samples.append(rows)
            if len(samples) > 1:
                return
        timer = threading.Timer(GATHER_S, self._agree, (port,))
        timer.daemon = True
        timer.start()

    def _agree(self, port: PortId) -> None:
        operator, number = port
        ordering = self._plan.operators[operator].ports[number].ordering
        assert ordering is not None
        with self._lock:
            samples = list(self._samples[port])
        try:
            bounds = agree(samples, ordering, self._plan.workers)
        except Exception as error:
            self._fail(self._plan.operators[operator].label, f"{type(error).__name__}: {error}")
            return
        self._post("all", UseBounds(operator, number, bounds))
