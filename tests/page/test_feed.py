"""What a browser hears: everything once, then only what has changed, as JSON, in bounded size."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reshape.page import feed as feeds
from reshape.page.feed import Feed, Heard
from reshape.page.runs import Runs

from .telling import RecordedRun, a_run, decision_event, flow_event, report_event, shown_event, tell

SECTIONS = {"head", "flow", "result", "workers", "hot", "history", "timeline"}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sections are made anew at every look, not five times a second."""
    monkeypatch.setattr(feeds, "UPDATE_S", 0.0)
    monkeypatch.setattr(feeds, "HISTORY_S", 0.0)


def heard_of(feed: Feed, number: int, heard: Heard) -> dict[str, Any]:
    message = feed.update([number], heard)
    parsed: dict[str, Any] = {} if message is None else json.loads(message)
    changes: dict[str, Any] = parsed.get("changes", {}).get(str(number), {})
    return changes


def watched(*more: Any) -> tuple[RecordedRun, Feed, int]:
    run = RecordedRun([*a_run()[:9], *more])
    runs = Runs()
    number = runs.add(run)
    return run, Feed(runs), number


def test_the_first_message_has_everything_the_second_nothing() -> None:
    _, feed, number = watched()
    heard = Heard()
    assert set(heard_of(feed, number, heard)) == SECTIONS
    assert feed.update([number], heard) is None
    assert set(heard_of(feed, number, Heard())) == SECTIONS, "another browser gets everything too"


def test_only_what_has_changed_is_told() -> None:
    run, feed, number = watched()
    heard = Heard()
    heard_of(feed, number, heard)
    tell(run.record, shown_event(0.6, [("a", 11), ("b", 22)]))
    assert set(heard_of(feed, number, heard)) == {"result"}
    tell(run.record, decision_event(0.61, "changed", 0, (3,), "again"))
    changes = heard_of(feed, number, heard)
    assert [entry[3] for entry in changes["timeline"]] == ["again"]


def test_roles_shares_and_moves_are_told() -> None:
    _, feed, number = watched()
    (port,) = heard_of(feed, number, Heard())["workers"]
    assert port["pairs"] == [{"skewed": 0, "helper": 3, "share": 0.25, "keys": 0}]
    assert port["waiting"] == [50, 2, 3, 35]
    ((_, what, source, target, amount, unit, state),) = port["moves"]
    assert (what, source, target, amount, unit, state) == ("rows", 0, 3, 30, "rows", "done")


def test_hot_keys_have_their_names_and_shares() -> None:
    _, feed, number = watched()
    hot = heard_of(feed, number, Heard())["hot"]
    assert [(each["what"], each["name"], each["owner"]) for each in hot] == [("partition", "a", 0)]
    run, feed, number = watched(report_event(0.7, (90, 0, 0, 0), (10, 0, 0, 0), keys={"0": [["0", 60]]}))
    hot = heard_of(feed, number, Heard())["hot"]
    assert [(each["what"], each["name"], each["share"]) for each in hot] == [("key", "a", 1.0), ("partition", "a", 1.0)]
    assert run.looked == 1


def test_a_run_that_is_told_again_begins_with_an_empty_timeline() -> None:
    run, feed, number = watched()
    heard = Heard()
    before = heard_of(feed, number, heard)
    run.record.start_over()
    tell(run.record, flow_event())
    changes = heard_of(feed, number, heard)
    assert changes["head"]["generation"] == before["head"]["generation"] + 1
    assert [entry[0] for entry in changes["timeline"]] == [1]


def test_runs_are_listed_and_those_that_ended_go_first() -> None:
    runs = Runs(most=3)
    first = RecordedRun(a_run(), "first")
    numbers = [runs.add(first)]
    first.active = False
    numbers += [runs.add(RecordedRun(a_run(), name)) for name in ("second", "third", "fourth")]
    heard = Heard()
    message = Feed(runs).update([numbers[0]], heard)
    assert message is not None
    listed = json.loads(message)
    assert [run["name"] for run in listed["runs"]] == ["second", "third", "fourth"]
    assert "changes" not in listed
    assert runs.get(numbers[0]) is None


def test_a_run_has_one_number_however_often_it_is_added() -> None:
    runs, run = Runs(), RecordedRun(a_run())
    assert runs.add(run) == runs.add(run) != runs.add(RecordedRun(a_run()))
    assert len(runs.all()) == 2


def test_a_run_without_any_event_yet_can_be_looked_at() -> None:
    runs = Runs()
    number = runs.add(RecordedRun([]))
    changes = heard_of(Feed(runs), number, Heard())
    assert changes["head"]["status"] == "running"
    assert changes["workers"] == []


def test_an_hour_of_500_workers_is_told_in_little() -> None:
    """Bounded, whatever has happened before: what counts is the size, not how fast this machine is today."""
    run = RecordedRun([flow_event(500)])
    runs = Runs()
    number = runs.add(run)
    waiting, processed = [9_000] * 500, [1_000_000] * 500
    for second in range(0, 3_600, 2):
        tell(run.record, report_event(float(second), waiting, processed))
        tell(run.record, decision_event(float(second), "changed", second % 500, (1,), "x" * 200))
    message = Feed(runs).update([number], Heard())
    assert message is not None
    assert len(message) < 1_000_000
    feed, heard = Feed(runs), Heard()
    feed.update([number], heard)
    tell(run.record, report_event(3_601.0, waiting, processed))
    update = feed.update([number], heard)
    assert update is not None
    assert len(update) < 100_000
