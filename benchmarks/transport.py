"""The transport between tasks alone: GB/s and CPU seconds per GB of a stream, and what a control call takes.

One process sends, another one takes and drops: batches of four longs, plain and encrypted, and the same by Arrow
Flight, which was the transport before. All of them in turns; the best of several rounds counts, for what else the
machine does can only slow them down. CPU time is that of both processes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import flight

from reshape.exchange.addresses import LOCAL
from reshape.exchange.certificates import own_certificate
from reshape.exchange.transport.access import Access, Tls
from reshape.exchange.transport.client import call, connect
from reshape.exchange.transport.listener import Listener
from reshape.exchange.transport.streams import Outlet
from reshape.exchange.wire import Envelope, Kind, Slice, StreamName

SECRET = "benchmark"
BATCH_ROWS = (4_096, 65_536)
WAYS = ("plain", "tls", "flight")
CALL_S = 60.0


class Dropping:
    def accept(self, batch: pa.RecordBatch, envelope: Envelope) -> None:
        pass

    def close(self) -> None:
        pass


class FlightDropping(flight.FlightServerBase):  # type: ignore[misc]
    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        for _ in reader:
            pass

    def do_action(self, context: Any, action: Any) -> list[bytes]:
        return [action.body.to_pybytes()]


def serve(way: str, tls: Tls | None) -> None:
    """The process that takes: its address first, its CPU time when the other one has closed the line."""
    listener: Any
    if way == "flight":
        listener = FlightDropping("grpc://127.0.0.1:0")
        location = f"grpc://127.0.0.1:{listener.port}"
    else:
        listener = Listener(LOCAL, lambda: [SECRET], tls, lambda name, schema: Dropping(), {"echo": lambda body: body})
        location = listener.location
    print(location, flush=True)
    for _ in sys.stdin:
        print(time.process_time(), flush=True)
    os._exit(0)


class Taker:
    """That process, as the other one sees it."""

    def __init__(self, way: str, tls: Tls | None) -> None:
        secret = {} if tls is None else {"TLS": json.dumps([tls.certificate, tls.key])}
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", way],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **secret},
        )
        self.location = self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def cpu_s(self) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._line())

    def close(self) -> None:
        self._process.communicate("")


@contextmanager
def taken(way: str) -> Iterator[tuple[Taker, Tls | None]]:
    tls = own_certificate() if way == "tls" else None
    taker = Taker(way, tls)
    try:
        yield taker, tls
    finally:
        taker.close()


def stream(way: str, rows: int, size: int) -> dict[str, float]:
    batch = pa.record_batch({name: pa.array(np.arange(rows)) for name in "abcd"})
    count = max(size // batch.nbytes, 1)
    with taken(way) as (taker, tls):
        send = _flight_stream if way == "flight" else _stream
        send(taker.location, tls, batch, max(count // 20, 1))
        taker_cpu, cpu, began = taker.cpu_s(), time.process_time(), time.perf_counter()
        send(taker.location, tls, batch, count)
        took = time.perf_counter() - began
        spent = time.process_time() - cpu + taker.cpu_s() - taker_cpu
    gigabytes = count * batch.nbytes / 1e9
    return {"gb_per_s": gigabytes / took, "cpu_s_per_gb": spent / gigabytes}


def _stream(location: str, tls: Tls | None, batch: pa.RecordBatch, count: int) -> None:
    with connect(location, Access(SECRET, tls)) as client:
        outlet = Outlet(client, StreamName("benchmark", 1, "router", 0, 0), batch.schema)
        for number in range(count):
            outlet.send(batch, Envelope(Kind.ROWS, 0, number, (Slice(0, 0, batch.num_rows),)))
        outlet.close()


def _flight_stream(location: str, tls: Tls | None, batch: pa.RecordBatch, count: int) -> None:
    with flight.connect(location) as client:
        writer, _ = client.do_put(flight.FlightDescriptor.for_command(b"x"), batch.schema)
        for number in range(count):
            writer.write_with_metadata(batch, Envelope(Kind.ROWS, 0, number, (Slice(0, 0, batch.num_rows),)).pack())
        writer.close()


def calls(way: str, count: int) -> dict[str, float]:
    with taken(way) as (taker, tls):
        if way == "flight":
            client: Any = flight.connect(taker.location)
            options = flight.FlightCallOptions(timeout=CALL_S)

            def ask() -> None:
                list(client.do_action(flight.Action("echo", b"x"), options))
        else:
            client = connect(taker.location, Access(SECRET, tls))

            def ask() -> None:
                call(client, "echo", b"x", CALL_S)

        for _ in range(20):
            ask()
        taker_cpu, cpu, began = taker.cpu_s(), time.process_time(), time.perf_counter()
        for _ in range(count):
            ask()
        took = time.perf_counter() - began
        listener_cpu = taker.cpu_s() - taker_cpu
        spent = time.process_time() - cpu + listener_cpu
        client.close()
    return {"ms": 1e3 * took / count, "cpu_ms": 1e3 * spent / count, "listener_cpu_ms": 1e3 * listener_cpu / count}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few bytes, one round")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", metavar="FILE", help="write the results to a file as well")
    parser.add_argument("--serve", choices=WAYS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        certificate, key = json.loads(os.environ.get("TLS", "[null, null]"))
        serve(arguments.serve, certificate and Tls(certificate, key, certificate, "reshape", mutual=True))
    size, count = (20_000_000, 50) if arguments.quick else (2_000_000_000, 2_000)
    streams: dict[str, list[dict[str, float]]] = {}
    called: dict[str, list[dict[str, float]]] = {}
    for _ in range(1 if arguments.quick else arguments.repeats):
        for way in WAYS:
            for rows in BATCH_ROWS:
                streams.setdefault(f"{way}, {rows:,} rows", []).append(stream(way, rows, size))
            called.setdefault(way, []).append(calls(way, count))
    print(f"{'a stream':24} {'GB/s':>6} {'CPU s per GB':>13}")
    for name, runs in streams.items():
        best, least = max(run["gb_per_s"] for run in runs), min(run["cpu_s_per_gb"] for run in runs)
        print(f"{name:24} {best:6.2f} {least:13.2f}")
    print(f"{'a call':24} {'ms':>6} {'CPU ms, of it the listener':>28}")
    for name, runs in called.items():
        ms, cpu, listener = (min(run[field] for run in runs) for field in ("ms", "cpu_ms", "listener_cpu_ms"))
        print(f"{name:24} {ms:6.2f} {cpu:19.2f} {listener:8.2f}")
    if arguments.json:
        figures = {"benchmark": "transport", "quick": arguments.quick, "streams": streams, "calls": called}
        Path(arguments.json).write_text(json.dumps(figures, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
