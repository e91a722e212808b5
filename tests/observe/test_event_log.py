from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from reshape.observe.event_log import EventLog


def test_each_event_is_a_line_as_soon_as_it_is_written(tmp_path: Path) -> None:
    log = EventLog(str(tmp_path / "made" / "here"), "run-1")
    log.write("decision", 1.23456, text="worker 0 is skewed\nand more", skewed=0)
    assert log.path == tmp_path / "made" / "here" / "run-1.jsonl"
    (line,) = log.path.read_text().splitlines()
    assert json.loads(line) == {
        "event": "decision",
        "seconds": 1.2346,
        "text": "worker 0 is skewed\nand more",
        "skewed": 0,
    }
    log.close()


def test_lines_of_several_threads_stay_whole_and_in_order(tmp_path: Path) -> None:
    log = EventLog(str(tmp_path), "run")

    def write(thread: int) -> None:
        for number in range(200):
            log.write("report", number, thread=thread, filling="x" * 500)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    events = [json.loads(line) for line in log.path.read_text().splitlines()]
    assert len(events) == 800
    for number in range(4):
        assert [event["seconds"] for event in events if event["thread"] == number] == list(range(200))


def test_a_late_writer_after_the_end_does_no_harm(tmp_path: Path) -> None:
    log = EventLog(str(tmp_path), "run")
    log.write("first", 0.0)
    log.close()
    log.close()
    log.write("late", 1.0)
    assert [json.loads(line)["event"] for line in log.path.read_text().splitlines()] == ["first"]


def test_a_second_run_of_the_same_name_is_added(tmp_path: Path) -> None:
    for number in range(2):
        log = EventLog(str(tmp_path), "run")
        log.write("report", number)
        log.close()
    assert [json.loads(line)["seconds"] for line in log.path.read_text().splitlines()] == [0, 1]


@pytest.mark.parametrize(
    "run", ["../../x-1", "/etc/x-1", "a/b-1", "..", "nul\0-1", "日本 ü-1", "x" * 5_000 + "-1", "日" * 300 + "-1", "."]
)
def test_no_name_leaves_the_folder(tmp_path: Path, run: str) -> None:
    folder = tmp_path / "logs" / "here"
    log = EventLog(str(folder), run)
    log.write("report", 0)
    log.close()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [log.path]
    assert log.path.parent == folder
    assert log.path.stem.endswith("-1") == run.endswith("-1"), "what makes it unique stays"


def test_a_long_run_makes_a_bounded_file_that_keeps_decisions(tmp_path: Path) -> None:
    log = EventLog(str(tmp_path), "run", most_bytes=100_000)
    for number in range(5_000):
        log.write("report", number / 10, operator=0, port=0, filling="x" * 200)
        if number % 100 == 0:
            log.write("decision", number / 10, text="why")
    log.close()
    assert log.path.stat().st_size <= 100_000
    events = [json.loads(line)["event"] for line in log.path.read_text().splitlines()]
    assert events.count("decision") == 50
    assert events[-1] == "report" or "full" not in events


def test_a_file_that_is_full_says_so(tmp_path: Path) -> None:
    log = EventLog(str(tmp_path), "run", most_bytes=10_000)
    for number in range(1_000):
        log.write("decision", float(number), text="x" * 100)
    lines = log.path.read_text().splitlines()
    assert json.loads(lines[-1])["event"] == "full"
    assert sum(map(len, lines)) <= 10_300
    log.close()
