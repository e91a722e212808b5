"""A record of a run: what it says after each event, in bounded memory, and the same from a file."""

from __future__ import annotations

from typing import Any

from reshape.observe.record import MOST_MOVES, RunRecord
from reshape.observe.series import Series
from reshape.observe.timeline import Timeline


def started(record: RunRecord, attempt: int = 1) -> None:
    ports = [{"label": "join"}]
    operators = [{"id": 0, "ports": ports}]
    record.write("flow", 0.0, attempt=attempt, hosts=2, operators=operators)


def on_port(record: RunRecord, kind: str, seconds: float, **facts: Any) -> None:
    record.write(kind, seconds, operator=0, port=0, **facts)


def test_who_helps_whom_is_known_from_start_to_end() -> None:
    record = RunRecord()
    started(record)
    port = record.ports[0, 0]
    on_port(record, "decision", 1.0, what="started", skewed=2, helpers=[0, 1], text="")
    assert port.helped == {2: (0, 1)}
    table = {"owners": [[2, [[0, 1, 4], [1, 1, 4], [2, 1, 2]]]]}
    on_port(record, "command", 1.1, command="SetRouting", table=table)
    assert port.shares == {2: {0: 0.25, 1: 0.25, 2: 0.5}}
    on_port(record, "decision", 1.2, what="changed", skewed=2, helpers=[1], text="")
    assert port.helped == {2: (1,)}
    on_port(record, "decision", 1.3, what="ended", skewed=2, helpers=[1], text="")
    assert port.helped == {}


def test_a_decision_to_change_nothing_makes_nobody_skewed() -> None:
    record = RunRecord()
    started(record)
    on_port(record, "decision", 1.0, what="refused", skewed=1, helpers=[0], text="too late")
    assert record.ports[0, 0].helped == {}
    assert record.timeline.after(0)[-1].text == "too late"


def test_moves_are_followed_to_their_end_and_bounded() -> None:
    record = RunRecord()
    started(record)
    for number in range(MOST_MOVES + 10):
        on_port(record, "command", 1.0, command="MoveBacklog", transfer=number, source=0, target=1, rows=9)
    moves = record.ports[0, 0].moves
    assert len(moves) == MOST_MOVES
    newest = MOST_MOVES + 9
    on_port(record, "told", 1.1, what="BacklogMoved", transfer=newest, rows=7)
    assert (moves[newest].state, moves[newest].amount) == ("done", 7)
    on_port(record, "told", 1.2, what="TransferFailed", transfer=newest - 1, helper=1, reason="it was full")
    assert moves[newest - 1].state == "failed"
    on_port(record, "told", 1.2, what="BacklogMoved", transfer=0, rows=7)  # forgotten long ago
    assert [entry.kind for entry in record.timeline.after(0)] == ["flow", "transfer", "failed transfer"]


def test_a_drained_input_has_nothing_waiting() -> None:
    record = RunRecord()
    started(record)
    on_port(record, "report", 1.0, workload=[3, 0], processed=[7, 9], received=[10, 9])
    on_port(record, "told", 1.1, what="Drained")
    port = record.ports[0, 0]
    assert (port.state, port.report["workload"], port.report["processed"]) == ("drained", [0, 0], [10, 9])


def test_another_attempt_goes_on_in_time_and_forgets_the_workers() -> None:
    record = RunRecord()
    started(record)
    on_port(record, "report", 5.0, workload=[3], processed=[7], received=[10])
    record.write("ended", 6.0, text="attempt 1 failed in host-1: it was lost", failed=True)
    started(record, attempt=2)
    assert record.ended is None
    assert record.ports[0, 0].report == {}
    record.write("restarted", 0.5, text="attempt 1 was lost")
    assert [(entry.kind, entry.seconds) for entry in record.timeline.after(0)] == [
        ("flow", 0.0),
        ("failed", 6.0),
        ("flow", 6.0),
        ("restarted", 6.5),
    ]


def test_a_series_keeps_its_ends_and_stays_small() -> None:
    series = Series("value", most=64)
    for number in range(36_000):
        series.add(number / 10, number)
    columns = series.columns()
    assert len(columns["seconds"]) <= 65
    assert columns["seconds"][0] == 0
    assert columns["value"][-1] == 35_999
    gaps = [after - before for before, after in zip(columns["seconds"], columns["seconds"][1:-1], strict=False)]
    assert max(gaps) < 3 * min(gaps), "evenly spaced"


def test_an_empty_series_has_its_columns() -> None:
    assert Series("a", "b").columns() == {"seconds": [], "a": [], "b": []}


def test_a_timeline_keeps_what_lasts_and_the_newest() -> None:
    timeline = Timeline(most=100)
    timeline.add(0.0, "flow", "attempt 1 begins")
    for number in range(5_000):
        timeline.add(float(number), "transfer", str(number))
    entries = timeline.after(0)
    assert len(entries) <= 100
    assert entries[0].kind == "flow"
    assert [entry.text for entry in entries[-40:]] == [str(number) for number in range(4_960, 5_000)]
    assert timeline.after(timeline.last) == []
    assert [entry.number for entry in timeline.after(timeline.last - 3)] == [4_999, 5_000, 5_001]


def test_a_timeline_of_what_lasts_is_bounded_too() -> None:
    timeline = Timeline(most=100)
    for number in range(5_000):
        timeline.add(float(number), "restarted", str(number))
    assert len(timeline.after(0)) <= 100
