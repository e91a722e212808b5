"""Events of a run that never was: what a record, a feed and a page are told in tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reshape.observe.record import RunRecord

Event = tuple[str, float, dict[str, Any]]


def flow_event(workers: int = 4, name: str = "told", attempt: int = 1) -> Event:
    port = {"label": "join (operator 0)", "role": "left", "keys": ["k"], "split": "split by records", "after": None}
    facts = {
        "name": name,
        "attempt": attempt,
        "hosts": 2,
        "workers": workers,
        "host_of": [worker % 2 for worker in range(workers)],
        "columns": [{"name": "k", "type": "string"}, {"name": "n", "type": "int64"}],
        "operators": [
            {
                "id": 0,
                "label": "join (operator 0)",
                "strategy": "reshape",
                "emulated_s": 0.0,
                "target": None,
                "ports": [port],
            }
        ],
        "sources": [{"id": 0, "target": [0, 0], "reader": "Spark"}],
    }
    return "flow", 0.0, facts


def report_event(seconds: float, waiting: Sequence[int], processed: Sequence[int], **more: Any) -> Event:
    received = [left + done for left, done in zip(waiting, processed, strict=True)]
    facts = {
        "operator": 0,
        "port": 0,
        "id": int(seconds * 10) + 1,
        "workload": list(waiting),
        "processed": list(processed),
        "routed": received,
        "received": received,
        "state_bytes": [100] * len(waiting),
        "busy": [0.5] * len(waiting),
        "keys": {},
    }
    return "report", seconds, {**facts, **more}


def decision_event(seconds: float, what: str, skewed: int, helpers: Sequence[int], text: str = "why") -> Event:
    facts = {"operator": 0, "port": 0, "what": what, "skewed": skewed, "helpers": list(helpers), "text": text}
    return "decision", seconds, facts


def command_event(seconds: float, command: str, **facts: Any) -> Event:
    return "command", seconds, {"operator": 0, "port": 0, "command": command, **facts}


def told_event(seconds: float, what: str, **facts: Any) -> Event:
    return "told", seconds, {"operator": 0, "port": 0, "what": what, **facts}


def shown_event(seconds: float, rows: Sequence[tuple[str, int]], *, final: bool = False, trust: float = 0.9) -> Event:
    facts = {
        "columns": [{"name": "k", "type": "string"}, {"name": "n", "type": "int64"}],
        "rows": [list(row) for row in rows],
        "more": 0,
        "completeness": [1.0] * len(rows),
        "trust": trust,
        "trust_of": {"join (operator 0)": trust},
        "final": final,
        "names": [
            {
                "operator": 0,
                "port": 0,
                "keys": [row[0] for row in rows],
                "hashes": [str(at) for at in range(len(rows))],
                "owners": [at % 4 for at in range(len(rows))],
            }
        ],
    }
    return "shown", seconds, facts


def tell(record: RunRecord, *events: Event) -> None:
    for kind, seconds, facts in events:
        record.write(kind, seconds, **facts)


def a_run() -> list[Event]:
    """From the first row to the last: worker 0 is skewed and worker 3 helps it."""
    table = {"version": 1, "owners": [[0, [[3, 1, 4], [0, 3, 4]]]], "keys": [], "buckets": [], "two_choices": False}
    return [
        flow_event(),
        ("opened", 0.1, {"operator": 0, "port": 0, "at": 0.1}),
        report_event(0.2, (90, 2, 3, 1), (10, 10, 10, 10), keys={"0": [["0", 40], ["77", 5]]}),
        shown_event(0.25, [("a", 10), ("b", 20)]),
        decision_event(0.3, "started", 0, (3,), "worker 0 is skewed: 90 rows wait for it"),
        command_event(0.3, "MoveBacklog", transfer=1, source=0, target=3, owner=0, rows=30),
        command_event(0.4, "SetRouting", table=table),
        told_event(0.5, "BacklogMoved", id=3, transfer=1, rows=30),
        report_event(0.6, (50, 2, 3, 35), (20, 12, 12, 12)),
        decision_event(0.9, "ended", 0, (3,), "the mitigation ends"),
        told_event(1.0, "InputEnded", id=5),
        told_event(1.2, "Drained", id=6),
        shown_event(1.3, [("a", 70), ("b", 76)], final=True, trust=1.0),
        ("ended", 1.3, {"text": "the result is complete after 1.3 s", "failed": False}),
    ]


class RecordedRun:
    """A run that is told all at once, and notes what is done with it."""

    def __init__(self, events: Sequence[Event], name: str = "told") -> None:
        self.name = name
        self.record = RunRecord()
        self.active = True
        self.status = "running"
        self.actions: Sequence[str] = ("pause", "stop", "refuse")
        self.acted: list[tuple[str, float | None]] = []
        self.looked = 0
        tell(self.record, *events)

    def look(self) -> None:
        self.looked += 1

    def act(self, action: str, value: float | None = None) -> None:
        if action == "refuse":
            raise ValueError("not now")
        self.acted.append((action, value))
