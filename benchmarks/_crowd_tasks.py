"""Tasks of a crowd, as the driver hears them: the first have real lines, all others call when they are told to."""

from __future__ import annotations

import heapq
import random
import threading
import time
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event

from _crowd import RUN, Crowd

from reshape.driver.board import MOST_WAITING
from reshape.exchange.transport.client import call, connect
from reshape.protocol.codec import Poll, decode_orders, encode_poll
from reshape.protocol.link import ControlLink, FlowAddress
from reshape.protocol.newest import Counted
from reshape.protocol.reports import Sender

# Threads that make the calls of all tasks without a line; a thread for each task would keep the machine busy.
CALLERS = 4
LIMIT_S = 300.0


def run_tasks(
    crowd: Crowd, address: FlowAddress, tasks: list[str], processes: int, over: Event, ready: Queue[int]
) -> None:
    """A part of the tasks, in a process of its own."""
    with_line, without = tasks[: MOST_WAITING // processes], tasks[MOST_WAITING // processes :]
    links = {task: ControlLink(address, crowd.attempt, task, lambda _: None) for task in with_line}
    for task in tasks:
        if task.startswith("source"):
            next(iter(links.values())).ask(crowd.started(number_of(task)), LIMIT_S)
    for link in links.values():
        link.start()
    callers = [
        threading.Thread(target=_call, args=(crowd, address, without[part::CALLERS], over), daemon=True)
        for part in range(CALLERS)
    ]
    for caller in callers:
        caller.start()
    ready.put(len(tasks))
    number = 0
    while not over.wait(crowd.plan.report_s):
        number += 1
        for task, link in links.items():
            link.note(counts_of(crowd, task, number))
    for caller in callers:
        caller.join(LIMIT_S)
    for link in links.values():
        link.close()


def _call(crowd: Crowd, address: FlowAddress, tasks: list[str], over: Event) -> None:
    """Polls of many tasks in turn, each when it is due."""
    client = connect(address.location, address.access)
    began = time.monotonic()
    due = [(began, task, 0) for task in tasks]
    while due and not over.is_set():
        at, task, last = heapq.heappop(due)
        over.wait(max(0.0, at - time.monotonic()))
        number = int((time.monotonic() - began) / crowd.plan.report_s)
        poll = Poll(Sender(RUN, crowd.attempt, task), last, (counts_of(crowd, task, number),))
        answer = decode_orders(call(client, "orders", encode_poll(poll), LIMIT_S))
        heapq.heappush(due, (time.monotonic() + answer.pause_s * random.uniform(0.5, 1.5), task, answer.last))


def number_of(task: str) -> int:
    return int(task.rpartition("-")[2])


def counts_of(crowd: Crowd, task: str, number: int) -> Counted:
    made = crowd.source_counts if task.startswith("source") else crowd.host_counts
    return made(number_of(task), number)
