"""The sending end of an edge between tasks, the same for sources and for operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Union

import pyarrow as pa

from reshape.exchange.router import HashPartitioner, OnePartition, Partitioner, Router
from reshape.exchange.tally import KeyTally
from reshape.exchange.wire import Envelope
from reshape.plan.physical import Edge
from reshape.sender.ranges import RangeRouter

if TYPE_CHECKING:
    from reshape.sender.combining import CombiningRouter


AnyRouter = Union[Router, RangeRouter, "CombiningRouter"]


def router_name(sender: int, host: int) -> str:
    """What the router of an operator on a host is called."""
    return f"op{sender}-host{host}"


def make_router(
    edge: Edge, send: Callable[[int, pa.RecordBatch, Envelope], None], offer: Callable[[pa.RecordBatch], None]
) -> AnyRouter:
    """A router by hash, or by range once the bounds are known, or by both; ``offer`` gives the driver a sample
    for them."""

    def make(partitioner: Partitioner, *, combined: bool = False) -> Router:
        tally = (
            KeyTally(len(edge.hosts), edge.buckets_per_worker, buckets=edge.count_buckets)
            if edge.count_keys or edge.count_buckets
            else None
        )
        per_worker = edge.buckets_per_worker
        return Router(partitioner, edge.hosts, send, buckets_per_worker=per_worker, combined=combined, tally=tally)

    if edge.combine is not None:
        from reshape.sender.combining import CombiningRouter

        keys, workers = edge.combine.keys, len(edge.hosts)
        groups = HashPartitioner(keys, workers) if keys else OnePartition()
        rows = HashPartitioner(edge.input.keys, workers) if keys else OnePartition()
        return CombiningRouter(edge.combine, make(groups, combined=True), make(rows))
    if edge.input.ordering is not None:
        return RangeRouter(edge.input.ordering, make, offer, edge.input.keys, len(edge.hosts))
    if not edge.input.keys:
        return make(OnePartition())
    return make(HashPartitioner(edge.input.keys, len(edge.hosts)))
