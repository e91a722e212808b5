"""One example or more of every record that driver and tasks send each other."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, get_args

import pyarrow as pa

from reshape.control.routing import RoutingTable, Shares
from reshape.exchange.tally import NO_COUNTS, RouterCounts
from reshape.protocol import orders, reports

ROWS = pa.record_batch(
    {
        "k": pa.array([1, None, 2**62], pa.int64()),
        "name": pa.array(["ü", "", None]),
        "parts": pa.array([[1.5], [], None], pa.list_(pa.float64())),
        "kind": pa.array(["a", "b", "a"]).dictionary_encode(),
    }
)
NO_ROWS = ROWS.slice(0, 0)
TABLE = RoutingTable(
    2**32 - 1,
    owners={0: Shares(((0, Fraction(2, 3)), (5, Fraction(1, 3))))},
    keys={2**64 - 1: Shares.whole(65_535)},
    buckets={31: Shares.whole(2)},
    two_choices=True,
)
# Short lists of counts, long ones of small and of large numbers, and none.
MANY = RouterCounts(tuple(range(17)), (2**53, *range(16)))
COUNTS = RouterCounts((3, 0), (1, 2), {1: {2**64 - 1: 7, 0: 1}}, {15: 3})
WORKER = reports.WorkerCounts(1, 2, (0, 4), (2**53, 0), ({0: 1, 65_535: 2}, {}), 100, 7, 0.25, False)
LAST_TRANSFER = (3, 1, -(2**31))  # operator, port, and the driver's own hand-over

REPORTS: list[Any] = [
    reports.HostReady(1, 7, 2**40, "tcp://10.0.0.1:4711"),
    reports.Progress(
        0, (WORKER,), (reports.Preview(1, 2, ROWS), reports.Preview(1, 3, NO_ROWS, None, {2: 5})), {0: COUNTS}
    ),
    reports.Progress(0, (), None, {}, 2**40, 7, {3: 5}),
    reports.Progress(0, (), (), {2: NO_COUNTS}),
    reports.OperatorDone(1, 0, COUNTS),
    reports.OperatorDone(1, 0, None),
    reports.Failed('worker "3"', "ValueError: café\n\0", True),
    reports.SourceBegins(0, 3, 12, 2**40),
    reports.Leaving(),
    reports.SplitWanted(0),
    reports.SourceRead(1, 0, 2**40),
    reports.RouterStarted(0, 1, "source-0-3"),
    reports.RouterCounted(0, 1, "source-0-3", COUNTS),
    reports.RouterCounted(0, 1, "source-0-3", MANY, 2**40),
    reports.RouterEnded(0, 1, "source-0-3", NO_COUNTS, 17),
    reports.TableApplied(0, 1, "op1-host0", 2**32 - 1),
    reports.Fenced(0, 1, "op1-host0", 0),
    reports.Sampled(0, 1, ROWS),
    reports.Holding(*LAST_TRANSFER),
    reports.StateArrived(*LAST_TRANSFER, 65_535, 2**53, 1e12),
    reports.StateStayed(*LAST_TRANSFER, 2, "no memory"),
    reports.Withdrawn(*LAST_TRANSFER),
    reports.BacklogSent(0, 1, 2**31 - 1, 17),
    reports.BacklogStayed(0, 1, 5, 2, ""),
    reports.ScatteredSent(0, 1, 2),
    reports.RangeSorted(0, 65_535, 130_000, 2**40, ROWS, NO_ROWS),
    reports.RangeComputed(0, 65_535, 2, ROWS),
]
ORDERS: list[Any] = [
    orders.Abort("the driver", "Ctrl-C"),
    orders.Pause(),
    orders.Resume(),
    orders.Enough(),
    orders.ReadSource(2),
    orders.UseTable(0, 1, TABLE, True),
    orders.UseTable(0, 1, RoutingTable(), False),
    orders.UseBounds(0, 1, ROWS),
    orders.InputEnding(0, 1),
    orders.GatherScattered(0, 1),
    orders.EndInput(65_535, 1),
    orders.MeetRanges(0, 0, 3, 1, 2**40, 2**41, NO_ROWS, ROWS),
    orders.GoOn(0, 0, 3, 1, ROWS),
    orders.Replicate(*LAST_TRANSFER, 1, 2, (0, 2**64 - 1)),
    orders.Replicate(*LAST_TRANSFER, 1, 2, None),
    orders.Hold(*LAST_TRANSFER, 1, (5,), (2**31 - 1,), 2**32 - 1),
    orders.Give(*LAST_TRANSFER, 1, 2, (5, 6), (), (1, 2), (-3,)),
    orders.Withdraw(*LAST_TRANSFER),
    orders.Forget(*LAST_TRANSFER),
    orders.SendBacklog(*LAST_TRANSFER, 1, 2, 3, 500),
]
ANSWERS: list[Any] = [
    reports.Met(3, ("tcp://a:1", "tcp://b:2")),
    reports.Refused("the hosts", "gone"),
    reports.AskAgain(0.5),
    reports.NewestTable(TABLE),
    reports.NewestTable(TABLE, paused=True),
    reports.NewestTable(TABLE, enough=True),
    reports.MayBegin(True),
    reports.SplitGiven(7),
    reports.SplitGiven(None),
    None,
]


def kinds_of(union: Any) -> set[type]:
    """The records of a union, through those that it is made of."""
    return {kind for kind in get_args(union) if kind is not type(None)}
