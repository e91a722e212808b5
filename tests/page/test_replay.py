"""A run read from its file looks as it did: at any speed, from the start again, and with files of strangers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reshape.observe.event_log import EventLog
from reshape.page import replay
from reshape.page.errors import LogUnreadable
from reshape.page.replay import ReplayedRun, read_log

from .telling import RecordedRun, a_run


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(replay, "time", made)
    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    log = EventLog(str(tmp_path), "told-1")
    for kind, seconds, facts in a_run():
        log.write(kind, seconds, **facts)
    log.close()
    return log.path


def test_the_end_is_the_same_as_that_of_the_run_itself(file: Path, clock: Clock) -> None:
    run, watched = ReplayedRun(file), RecordedRun(a_run())
    run.look()
    clock.now += 60
    run.look()
    assert not run.active
    assert run.name == "told"
    assert run.record.timeline.after(0) == watched.record.timeline.after(0)
    assert run.record.ended == watched.record.ended
    assert run.record.ports[0, 0].report["processed"] == watched.record.ports[0, 0].report["processed"]
    assert run.record.shown["rows"] == [["a", 70], ["b", 76]]


def test_time_passes_at_the_speed_asked_for(file: Path, clock: Clock) -> None:
    run = ReplayedRun(file, speed=0.5)
    run.look()
    clock.now += 0.65  # 0.325 s of the run
    run.look()
    assert run.record.ports[0, 0].helped == {0: (3,)}
    run.act("speed", 10.0)
    clock.now += 0.065  # 0.65 s more
    run.look()
    assert run.record.ports[0, 0].helped == {}
    assert run.active
    with pytest.raises(ValueError, match="a speed is between"):
        run.act("speed", 0.0)


def test_it_can_be_paused_and_told_again(file: Path, clock: Clock) -> None:
    run = ReplayedRun(file)
    run.look()
    clock.now += 0.45
    run.act("pause")
    clock.now += 100
    run.look()
    assert (run.status.split(":")[0], run.actions[0]) == ("paused", "resume")
    assert run.record.ports[0, 0].moves[1].state == "under way"
    run.act("resume")
    clock.now += 0.1
    run.look()
    assert run.record.ports[0, 0].moves[1].state == "done"
    clock.now += 10
    run.look()
    assert (run.status.split(":")[0], run.actions) == ("done", ("restart", "speed"))
    run.act("restart")
    run.look()
    assert run.record.generation == 1
    assert [entry.kind for entry in run.record.timeline.after(0)] == ["flow"]
    assert run.active


def test_a_last_line_that_was_never_finished_is_left_out(file: Path) -> None:
    whole = read_log(file)
    with file.open("a") as more:
        more.write('{"event": "report", "seco')
    assert read_log(file) == whole


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "does not say which flow"),
        ("not json\nat all\n", "line 1 of"),
        ('{"event": "flow", "seconds": 0}\n[1, 2]\n{"event": "x", "seconds": 1}\n', "line 2 of"),
        ('{"event": "report", "seconds": 1.0, "workload": [1]}\n', "does not say which flow"),
        ('{"event": "flow", "seconds": "soon"}\n{}\n', "line 1 of"),
        ("[" * 100_000 + "\n{}", "line 1 of"),
    ],
)
def test_what_is_no_log_is_refused_with_advice(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "some.jsonl"
    path.write_text(text)
    with pytest.raises(LogUnreadable, match=says) as raised:
        read_log(path)
    assert "event_log" in str(raised.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LogUnreadable, match=r"gone\.jsonl cannot be read: No such file"):
        read_log(tmp_path / "gone.jsonl")


def test_events_of_a_stranger_are_left_out(file: Path, tmp_path: Path, clock: Clock) -> None:
    lines = file.read_text().splitlines()
    odd = [
        {"event": "report", "seconds": 0.5},
        {"event": "decision", "seconds": 0.5, "operator": "x", "port": None},
        {"event": "flow", "seconds": 0.5, "operators": 7},
        {"event": "shown", "seconds": 0.5, "names": [1]},
        {"event": "never heard of", "seconds": 0.5, "x": 1},
    ]
    path = tmp_path / "odd.jsonl"
    path.write_text("\n".join([*lines[:5], *map(json.dumps, odd), *lines[5:]]))
    run = ReplayedRun(path)
    run.look()
    clock.now += 10
    run.look()
    assert not run.active
    assert run.record.shown["rows"] == [["a", 70], ["b", 76]]
