"""What the page gets of a run, section by section, as plain values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reshape.observe.record import PortRecord, RunRecord
from reshape.page.runs import Watched

# Hot keys and partitions that are listed; each has less than the ones before it.
MOST_HOT = 12
# A partition with this many times its fair part of the rows is hot.
HOT = 1.5
# Moves of rows and state that are listed.
MOST_MOVES = 20
# Help that took a tenth of a second only can still be seen for so long.
LINGER_S = 2.0


def head(run: Watched, record: RunRecord) -> dict[str, Any]:
    ended = record.ended
    return {
        "name": run.name,
        "generation": record.generation,
        "status": run.status,
        "active": run.active,
        "actions": list(run.actions),
        "seconds": round(record.seconds, 1),
        "attempt": record.flow.get("attempt"),
        "hosts": record.flow.get("hosts"),
        "workers": record.flow.get("workers"),
        "trust": record.shown.get("trust"),
        "final": bool(record.shown.get("final")),
        "progress": dict(record.progress),
        "ended": None if ended is None else ended["text"],
    }


def flow(record: RunRecord) -> dict[str, Any]:
    return dict(record.flow)


def result(record: RunRecord) -> dict[str, Any]:
    return {name: value for name, value in record.shown.items() if name != "names"}


def workers(record: RunRecord) -> list[dict[str, Any]]:
    """Each input with the newest counts of its workers, and who helps whom."""
    return [_port(record, number, port) for number, port in record.ports.items()]


def _port(record: RunRecord, number: tuple[int, int], port: PortRecord) -> dict[str, Any]:
    report = port.report
    moves = list(port.moves.values())[-MOST_MOVES:]
    return {
        "operator": number[0],
        "port": number[1],
        "state": port.state,
        "waiting": report.get("workload", []),
        "processed": report.get("processed", []),
        "routed": report.get("routed", []),
        "busy": [round(part, 2) for part in report.get("busy", [])],
        "state_bytes": report.get("state_bytes", []),
        "pairs": list(_pairs(port, record)),
        "moves": [[m.seconds, m.what, m.source, m.target, m.amount, m.unit, m.state] for m in moves],
    }


def _pairs(port: PortRecord, record: RunRecord) -> Iterator[dict[str, Any]]:
    """Who helps whom now, with the part of the rows that are to come, and who did until a moment ago."""
    for skewed, (seconds, helpers) in port.ended.items():
        if record.seconds - seconds < LINGER_S and record.ended is None:
            for helper in helpers:
                yield {"skewed": skewed, "helper": helper, "share": 0.0, "keys": 0, "over": True}
    for skewed, helpers in sorted(port.helped.items()):
        for helper in sorted(helpers):
            share = port.shares.get(skewed, {}).get(helper, 0.0)
            keys = port.handed_keys.get((skewed, helper), 0)
            yield {"skewed": skewed, "helper": helper, "share": round(share, 4), "keys": keys}


def hot(record: RunRecord) -> list[dict[str, Any]]:
    """Keys with the largest part of an input's rows where keys are counted, else partitions, with their keys' names."""
    found: list[dict[str, Any]] = []
    owners = {(named["operator"], named["port"]): named for named in record.shown.get("names", ())}
    for number, port in record.ports.items():
        routed = port.report.get("routed", [])
        total = sum(routed)
        if not total:
            continue
        about = {"operator": number[0], "port": number[1]}
        for key, rows in list(port.keys.certain().items())[:MOST_HOT]:
            assert isinstance(key, int)  # hashes
            share = min(rows / total, 1.0)
            if share * len(routed) >= HOT:
                name = port.names.get(key) or f"a key not shown (#{key:x})"
                owner = port.key_owner.get(key, -1)
                found.append({**about, "what": "key", "name": name, "share": round(share, 4), "owner": owner})
        for owner, rows in enumerate(routed):
            if rows * len(routed) >= HOT * total:
                name, share = _of_owner(owners.get(number), owner), round(rows / total, 4)
                found.append({**about, "what": "partition", "name": name, "share": share, "owner": owner})
    return sorted(found, key=lambda each: (each["what"], -each["share"]))[: 2 * MOST_HOT]


def _of_owner(named: dict[str, Any] | None, owner: int) -> str:
    """Keys of a partition that the running result has, as many as fit a line."""
    if named is None:
        return ""
    keys = [key for key, of in zip(named["keys"], named["owners"], strict=True) if of == owner]
    return ", ".join(keys[:4]) + (f" and {len(keys) - 4} more" if len(keys) > 4 else "")


def history(record: RunRecord) -> dict[str, Any]:
    return {
        "trust": record.trust.columns(),
        "ports": [
            {"operator": number[0], "port": number[1], **port.history.columns()}
            for number, port in record.ports.items()
        ],
    }


def timeline(record: RunRecord, after: int) -> list[list[Any]]:
    """Entries beyond a number: number, seconds, kind, text, operator, port, skewed, helpers."""
    return [
        [e.number, round(e.seconds, 2), e.kind, e.text, e.operator, e.port, e.skewed, list(e.helpers)]
        for e in record.timeline.after(after)
    ]
