"""Which inputs of a flow still get rows: sources are started when their turn comes, and inputs end with their last
producer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from reshape.driver.control_plane import PortId
from reshape.plan.physical import PhysicalPlan

LOG = logging.getLogger(__name__)


class Inputs:
    """``run_source`` returns a source's number of rows when hosts have them all; ``on_ended`` is called for an input
    whose last producer has ended; ``on_failed`` with the number of a source and what it raised."""

    def __init__(
        self,
        plan: PhysicalPlan,
        run_source: Callable[[int], int],
        on_ended: Callable[[PortId], None],
        on_failed: Callable[[int, Exception], None],
    ) -> None:
        self._plan = plan
        self._run_source = run_source
        self._on_ended = on_ended
        self._on_failed = on_failed
        self._lock = threading.Lock()
        self._closed: set[PortId] = set()
        self._producers = {
            (operator.id, index): len(port.sources) + len(port.operators)
            for operator in plan.operators
            for index, port in enumerate(operator.ports)
        }
        self._waiting = [source for operator in plan.operators for port in operator.ports for source in port.sources]
        self._threads: list[threading.Thread] = []
        self._enough = False
        self._done_hosts: dict[int, set[int]] = {operator.id: set() for operator in plan.operators}

    def start(self) -> None:
        """Start what need not wait; inputs without any producer end at once."""
        for port, producers in self._producers.items():
            if producers == 0:
                self._on_ended(port)
        self._start_ready_sources()

    def stop(self) -> None:
        """Start no more sources."""
        with self._lock:
            self._waiting.clear()

    def enough(self) -> None:
        """Sources whose turn has not come yet have no rows for anybody."""
        with self._lock:
            self._enough = True

    def producer_ended(self, port: PortId) -> None:
        with self._lock:
            self._producers[port] -= 1
            ended = self._producers[port] == 0
        if ended:
            self._on_ended(port)

    def operator_done(self, operator: int, host: int) -> bool:
        """All workers of an operator on one host have sent everything. True when the result is complete."""
        with self._lock:
            self._done_hosts[operator].add(host)
            if not self._is_done(operator):
                return False
            target = self._plan.operators[operator].target
            # The result of a union comes from several operators.
            last = [each.id for each in self._plan.operators if each.target is None]
            complete = target is None and all(map(self._is_done, last))
        if target is not None:
            self.producer_ended(target)
        return complete

    def hosts_that_are_done(self) -> set[int]:
        """Hosts whose workers of all operators have sent everything."""
        with self._lock:
            return set.intersection(*self._done_hosts.values())

    def _is_done(self, operator: int) -> bool:
        return len(self._done_hosts[operator]) == self._plan.hosts

    def close(self, port: PortId) -> None:
        """An input is over for its operator: the side that waited for it may start."""
        with self._lock:
            self._closed.add(port)
        self._start_ready_sources()

    def join(self, timeout_s: float) -> None:
        """Wait for the threads of the sources."""
        for thread in list(self._threads):
            thread.join(timeout_s)

    def _start_ready_sources(self) -> None:
        """A side that has to wait for another one starts after it: its rows would only lie in queues."""
        with self._lock:
            ready = [source for source in self._waiting if self._may_start(source)]
            self._waiting = [source for source in self._waiting if source not in ready]
            threads = [
                threading.Thread(target=self._run, args=(source,), name=f"reshape-source-{source}", daemon=True)
                for source in ready
            ]
            self._threads += threads
        for thread in threads:
            thread.start()

    def _may_start(self, source: int) -> bool:
        operator, index = self._plan.source_target(source)
        after = self._plan.operators[operator].ports[index].after
        return after is None or (operator, after) in self._closed

    def _run(self, source: int) -> None:
        try:
            rows = 0 if self._enough else self._run_source(source)
        except Exception as error:
            self._on_failed(source, error)
            return
        LOG.info("flow %s: source %d has sent %d rows", self._plan.name, source, rows)
        self.producer_ended(self._plan.source_target(source))
