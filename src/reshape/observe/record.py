"""What is known of a run, put together from its events: all that the live page shows, in bounded memory.

The events are those of the event log. So a run that is read from its file looks as it did when it was watched.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reshape.control.sensing.hitters import HeavyKeys
from reshape.observe.series import Series
from reshape.observe.timeline import Timeline

PortNumber = tuple[int, int]  # operator, port

# Keys that are counted per input, and of these the heaviest of each report: beyond them none is hot.
COUNTED_KEYS = 128
KEYS_OF_REPORT = 32
# Names of keys that the running result has shown.
MOST_NAMES = 2_000
# Moves of rows or state that are listed; older ones are in the timeline.
MOST_MOVES = 50


@dataclass(frozen=True, slots=True)
class Move:
    """Rows, state or keys on their way from one worker to another, or there."""

    transfer: int
    seconds: float
    what: str
    source: int
    target: int
    amount: int
    unit: str
    state: str  # under way, done, failed


@dataclass(slots=True)
class PortRecord:
    """One input of an operator: the newest report, who helps whom, and how it was before."""

    report: Mapping[str, Any] = field(default_factory=dict)
    state: str = "waiting"  # waiting, open, ended (rows may wait), drained
    helped: dict[int, tuple[int, ...]] = field(default_factory=dict)  # helpers of each skewed worker
    ended: dict[int, tuple[float, tuple[int, ...]]] = field(default_factory=dict)  # when, and who had helped
    shares: dict[int, dict[int, float]] = field(default_factory=dict)  # by owner, of its rows, by worker
    handed_keys: dict[tuple[int, int], int] = field(default_factory=dict)  # keys that moved, by source and target
    moves: dict[int, Move] = field(default_factory=dict)
    keys: HeavyKeys = field(default_factory=lambda: HeavyKeys(COUNTED_KEYS))
    key_owner: dict[int, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)  # of keys that were shown, by hash
    history: Series = field(default_factory=lambda: Series("most", "mean", "processed"))


class RunRecord:
    """Takes events from any thread. ``version`` grows with each of them."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # for those that read more than one thing
        self.generation = 0  # how often it was begun anew
        self._clear()

    def _clear(self) -> None:
        self.version = 0
        self.seconds = 0.0
        self.flow: Mapping[str, Any] = {}
        self.ports: dict[PortNumber, PortRecord] = {}
        self.shown: Mapping[str, Any] = {}
        self.progress: Mapping[str, Any] = {}
        self.ended: Mapping[str, Any] | None = None
        self.timeline = Timeline()
        self.trust = Series("trust")
        self._before_s = 0.0  # what attempts before this one took

    def write(self, kind: str, seconds: float, **facts: Any) -> None:
        with self.lock:
            self.version += 1
            if kind == "flow":
                self._begin(facts)
            self.seconds = max(self.seconds, self._before_s + seconds)
            match kind:
                case "report":
                    self._report(self._port(facts), facts)
                case "shown":
                    self._show(facts)
                case "progress":
                    self.progress = facts
                    self.trust.add(self.seconds, facts["trust"])
                case "decision":
                    self._decide(self._port(facts), facts)
                case "command":
                    self._command(self._port(facts), facts)
                case "told":
                    self._told(self._port(facts), facts)
                case "opened":
                    self._port(facts).state = "open"
                    self._add("opened", f"{self._label(facts)} gets its first rows", facts)
                case "gave up" | "restarted" | "paused" | "resumed":
                    self._add(kind, facts["text"], facts)
                case "ended":
                    self.ended = facts
                    self._add("failed" if facts.get("failed") else "ended", facts["text"], facts)

    def close(self) -> None:
        """What is known stays."""

    def start_over(self) -> None:
        """Forget everything: the same run is told again."""
        with self.lock:
            self.generation += 1
            self._clear()

    def _begin(self, facts: Mapping[str, Any]) -> None:
        """An attempt begins; of those before it the timeline tells."""
        self._before_s = self.seconds
        self.flow = facts
        self.ended = None
        self.ports = {
            (operator["id"], index): PortRecord()
            for operator in facts["operators"]
            for index in range(len(operator["ports"]))
        }
        self._add("flow", f"attempt {facts['attempt']} begins on {facts['hosts']} hosts", {})

    def _port(self, facts: Mapping[str, Any]) -> PortRecord:
        return self.ports.setdefault((facts["operator"], facts["port"]), PortRecord())

    def _label(self, facts: Mapping[str, Any]) -> str:
        operators: Sequence[Mapping[str, Any]] = self.flow.get("operators", ())
        if facts["operator"] >= len(operators):
            return f"operator {facts['operator']}"
        return str(operators[facts["operator"]]["ports"][facts["port"]]["label"])

    def _add(self, kind: str, text: str, facts: Mapping[str, Any]) -> None:
        port = (facts.get("operator", -1), facts.get("port", -1))
        self.timeline.add(self.seconds, kind, text, port, facts.get("skewed", -1), tuple(facts.get("helpers", ())))

    def _report(self, port: PortRecord, facts: Mapping[str, Any]) -> None:
        port.report = facts
        waiting, processed = facts["workload"], facts["processed"]
        if waiting:
            port.history.add(self.seconds, max(waiting), sum(waiting) / len(waiting), sum(processed))
        counted = {int(key): (int(owner), rows) for owner, of in facts.get("keys", {}).items() for key, rows in of}
        if counted:
            port.keys.add({key: rows for key, (_, rows) in counted.items()})
            port.key_owner |= {key: owner for key, (owner, _) in counted.items()}
            if len(port.key_owner) > 4 * COUNTED_KEYS:
                known = port.keys.certain()
                port.key_owner = {key: owner for key, owner in port.key_owner.items() if key in known}

    def _show(self, facts: Mapping[str, Any]) -> None:
        self.shown = facts
        for named in facts.get("names", ()):
            port = self._port(named)
            for key, name in zip(named["hashes"], named["keys"], strict=True):
                if len(port.names) < MOST_NAMES:
                    port.names[int(key)] = name

    def _decide(self, port: PortRecord, facts: Mapping[str, Any]) -> None:
        skewed, what = facts["skewed"], facts["what"]
        if (what == "started" and skewed >= 0) or (what in ("iterated", "changed") and skewed in port.helped):
            port.helped[skewed] = tuple(facts["helpers"])
            port.ended.pop(skewed, None)
        elif what in ("ended", "failed"):
            self._over(port, skewed)
        self._add(what if what != "ended" else "over", facts["text"], facts)

    def _over(self, port: PortRecord, skewed: int) -> None:
        helpers = port.helped.pop(skewed, None)
        if helpers is not None:
            port.ended[skewed] = (self.seconds, helpers)

    def _command(self, port: PortRecord, facts: Mapping[str, Any]) -> None:
        match facts["command"]:
            case "SetRouting":
                port.shares = {
                    owner: {worker: top / bottom for worker, top, bottom in parts}
                    for owner, parts in facts["table"]["owners"]
                }
            case "ReplicateState":
                for helper in facts["helpers"]:
                    self._move(port, facts["transfer"], "state", facts["skewed"], helper, 0, "bytes")
            case "HandOverState":
                pair = (facts["source"], facts["target"])
                count = len(facts["keys"]) + len(facts["buckets"])
                port.handed_keys[pair] = port.handed_keys.get(pair, 0) + count
                self._move(port, facts["transfer"], "keys", *pair, count, "keys")
            case "MoveBacklog":
                self._move(port, facts["transfer"], "rows", facts["source"], facts["target"], facts["rows"], "rows")

    def _move(
        self, port: PortRecord, transfer: int, what: str, source: int, target: int, amount: int, unit: str
    ) -> None:
        port.moves[transfer] = Move(transfer, self.seconds, what, source, target, amount, unit, "under way")
        while len(port.moves) > MOST_MOVES:
            del port.moves[next(iter(port.moves))]

    def _told(self, port: PortRecord, facts: Mapping[str, Any]) -> None:
        match facts["what"]:
            case "StateTransferred":
                self._moved(port, facts, facts["bytes"], f"{facts['bytes']:,} bytes of state")
            case "BacklogMoved":
                self._moved(port, facts, facts["rows"], f"{facts['rows']:,} waiting rows")
            case "TransferFailed":
                move = port.moves.get(facts["transfer"])
                if move is not None:
                    port.moves[move.transfer] = _with(move, move.amount, "failed")
                text = f"a transfer to worker {facts['helper']} failed: {facts['reason']}"
                self._add("failed transfer", text, facts)
            case "InputEnded":
                port.state = "ended"
                self._add("input", f"{self._label(facts)}: all rows are sent, some still wait", facts)
            case "Drained":
                port.state = "drained"
                for skewed in list(port.helped):
                    self._over(port, skewed)
                port.shares = {}
                received = port.report.get("received", ())  # the newest report may be a moment old
                port.report = {**port.report, "workload": [0] * len(received), "processed": received}
                self._add("input", f"{self._label(facts)}: every row is processed", facts)

    def _moved(self, port: PortRecord, facts: Mapping[str, Any], amount: int, what: str) -> None:
        move = port.moves.get(facts["transfer"])
        if move is None:
            return
        port.moves[move.transfer] = _with(move, amount, "done")
        if amount:
            who = {**facts, "skewed": move.source, "helpers": (move.target,)}
            self._add("transfer", f"{what} moved from worker {move.source} to worker {move.target}", who)


def _with(move: Move, amount: int, state: str) -> Move:
    if move.what == "keys":
        amount = move.amount
    return Move(move.transfer, move.seconds, move.what, move.source, move.target, amount, move.unit, state)
