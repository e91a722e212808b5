"""What streams bring to a host: rows go into its workers' queues, transfers to the working thread."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from reshape.exchange.queues import HostQueues
from reshape.exchange.wire import Envelope, Purpose, StreamName, offsets
from reshape.host.moves.intake import Arrival, Label
from reshape.host.worker import Workers


def put_rows(
    queues: HostQueues,
    workers: Workers,
    target: tuple[int, int],
    batch: pa.RecordBatch,
    envelope: Envelope,
    *,
    may_wait: bool,
) -> None:
    """Put the rows of a message into the queues of the workers that they are for."""
    operator, port = target
    for part, start in zip(envelope.slices, offsets(envelope.slices), strict=True):
        queues.put(
            workers.index(operator, part.worker),
            port,
            part.owner,
            batch.slice(start, part.rows),
            version=envelope.version,
            combined=envelope.combined,
            may_wait=may_wait,
        )


class RowsIn:
    """A router's stream."""

    def __init__(self, queues: HostQueues, workers: Workers, name: StreamName) -> None:
        self._queues = queues
        self._workers = workers
        self._target = (name.operator, name.port)

    def accept(self, batch: pa.RecordBatch, envelope: Envelope) -> None:
        put_rows(self._queues, self._workers, self._target, batch, envelope, may_wait=True)

    def close(self) -> None:
        """Nothing to do: the driver says when an input has ended."""


class TransferIn:
    """A transfer's stream. It is taken in whole, when it has ended well; the sender waits for that."""

    def __init__(self, arrive: Callable[[Arrival], None], name: StreamName, schema: pa.Schema) -> None:
        self._arrive = arrive
        self._arrival = Arrival(name, Label.unpack(schema.metadata))
        assert name.purpose != Purpose.ROWS

    def accept(self, batch: pa.RecordBatch, envelope: Envelope) -> None:
        self._arrival.version, self._arrival.combined = envelope.version, envelope.combined
        for part, start in zip(envelope.slices, offsets(envelope.slices), strict=True):
            self._arrival.parts.append((part.owner, batch.slice(start, part.rows)))

    def close(self) -> None:
        self._arrive(self._arrival)
        self._arrival.await_taken()
