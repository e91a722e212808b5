"""The sending end of an edge between tasks, the same for sources and for operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from reshape.exchange.flight import Access
from reshape.exchange.router import HashPartitioner, OnePartition, Partitioner, Router
from reshape.exchange.tally import KeyTally
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
        tally = (
            KeyTally(len(edge.hosts), edge.buckets_per_worker, buckets=edge.count_buckets)
            if edge.count_keys or edge.count_buckets
            else None
        )
        return Router(partitioner, edge.hosts, send, buckets_per_worker=edge.buckets_per_worker, tally=tally)

    if edge.input.ordering is not None:
        return RangeRouter(edge.input.ordering, make, offer)
    if not edge.input.keys:
        return make(OnePartition())
    return make(HashPartitioner(edge.input.keys, len(edge.hosts)))
