"""The sending end of an edge between tasks, the same for sources and for operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from reshape.exchange.flight import Access
from reshape.exchange.router import HashPartitioner, Partitioner, Router
from reshape.exchange.wire import Envelope
from reshape.plan.physical import Edge
from reshape.runtime.ranges import RangeRouter


@dataclass(frozen=True, slots=True)
class FlowAddress:
    """Where the driver listens for this flow."""

    name: str
    location: str
    access: Access


def make_router(
    edge: Edge, send: Callable[[int, pa.RecordBatch, Envelope], None], offer: Callable[[pa.RecordBatch], None]
) -> Router | RangeRouter:
    """A router by hash, or by range once the bounds are known; ``offer`` gives the driver a sample for them."""

    def make(partitioner: Partitioner) -> Router:
        return Router(partitioner, edge.hosts, send)

    if edge.input.ordering is not None:
        return RangeRouter(edge.input.ordering, make, offer)
    return make(HashPartitioner(edge.input.keys, len(edge.hosts)))
