"""What a running flow shows, how far that can be trusted, and what it tells about its decisions."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import reshape
from reshape.flows import Flow
from reshape.observe.representativeness import Shown
from reshape.query import Query

ROWS = 24_000
COST_S = 0.0002  # emulated; the worker of key 0 waits three seconds in all
LIMIT_S = 120.0
ANSWER = {0: 17_999, **dict.fromkeys(range(1, 7), 1_000), 7: 1}


@pytest.fixture(scope="module")
def skewed(spark: SparkSession) -> DataFrame:
    """Three rows of four have key 0; one row has key 7."""
    key = "CASE WHEN id = 0 THEN 7 WHEN id % 4 < 3 THEN 0 ELSE 1 + id DIV 4 % 6 END AS k"
    return spark.range(0, ROWS, 1, 2).selectExpr(key, "id AS v")


def flow_of(skewed: DataFrame, strategy: str, log: Path) -> Flow:
    """The cost is that of the first operator, so that groups are complete as soon as it is."""
    flow = reshape.flow(skewed, strategy=strategy, workers=4, hosts=2, event_log=str(log), joins="all")
    keys = skewed.sparkSession.range(len(ANSWER)).selectExpr("id AS k")
    return flow.join(keys, "k").groupBy("k").count().tuned("join", cost_s_per_row=COST_S)


def states(query: Query) -> list[Shown]:
    """All that is shown until the end, and what stays."""
    seen: list[Shown] = []
    deadline = time.monotonic() + LIMIT_S
    while query.isActive:
        assert time.monotonic() < deadline, "waited too long"
        state = query.shown()
        if state is not None and (not seen or state.table != seen[-1].table):
            seen.append(state)
        time.sleep(0.02)
    query.awaitTermination()
    last = query.shown()
    assert last is not None
    return [*seen, last]


def counted(state: Shown) -> dict[int, int]:
    return dict(zip(state.table["k"].to_pylist(), state.table["count"].to_pylist(), strict=True))


def trusted(state: Shown) -> dict[int, float]:
    assert state.completeness is not None
    return dict(zip(state.table["k"].to_pylist(), state.completeness, strict=True))


@pytest.fixture(scope="module")
def runs(skewed: DataFrame, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[list[Shown], list[str], Path]]:
    found = {}
    for strategy in ("none", "reshape"):
        log = tmp_path_factory.mktemp(strategy)
        query = flow_of(skewed, strategy, log).start()
        seen = states(query)
        assert {row["k"]: row["count"] for row in query.result(LIMIT_S).collect()} == ANSWER
        found[strategy] = (seen, query.story(), log)
        query.release()
    return found


@pytest.mark.parametrize("strategy", ["none", "reshape"])
def test_what_stays_is_the_result(runs: dict[str, tuple[list[Shown], list[str], Path]], strategy: str) -> None:
    """Helpers' parts are with their owners by then, and are not counted twice."""
    seen, _, _ = runs[strategy]
    last = seen[-1]
    assert last.final
    assert counted(last) == ANSWER
    assert trusted(last) == dict.fromkeys(ANSWER, 1.0)
    assert last.representativeness.overall == 1.0


@pytest.mark.parametrize("strategy", ["none", "reshape"])
def test_it_grows_and_is_never_more_than_the_result(
    runs: dict[str, tuple[list[Shown], list[str], Path]], strategy: str
) -> None:
    seen, _, _ = runs[strategy]
    running = [state for state in seen if not state.final]
    assert len(running) > 3
    for state in seen:
        assert all(rows <= ANSWER[key] for key, rows in counted(state).items())
        assert all(0.0 <= part <= 1.0 for part in trusted(state).values())
    assert [state.seconds for state in seen] == sorted(state.seconds for state in seen)


def test_a_hot_key_is_behind_and_the_handle_says_so(runs: dict[str, tuple[list[Shown], list[str], Path]]) -> None:
    seen, story, _ = runs["none"]
    assert story == []
    # When all input has come and the other workers are through, only the hot worker's groups lack rows.
    late = [state for state in seen if counted(state).get(0, ANSWER[0]) < 0.8 * ANSWER[0] and not state.final][-1]
    part = counted(late)[0] / ANSWER[0]
    assert trusted(late)[0] == pytest.approx(part, abs=0.2)
    least = min(trusted(late).values())
    assert trusted(late)[0] == least
    assert late.representativeness.overall < 1.0
    assert set(late.representativeness.by_operator) == {"inner join (operator 0), probe side", "group by (operator 1)"}
    assert min(late.representativeness.by_operator.values()) == late.representativeness.overall


def test_the_story_and_the_log_tell_the_same(runs: dict[str, tuple[list[Shown], list[str], Path]]) -> None:
    _, story, log = runs["reshape"]
    (file,) = log.glob("*.jsonl")
    events = [json.loads(line) for line in file.read_text().splitlines()]
    decisions = [event for event in events if event["event"] == "decision"]
    assert "is skewed" in story[0]
    assert sorted(line.split(": ", 1)[1] for line in story) == sorted(event["text"] for event in decisions)
    assert any(event["event"] == "command" for event in events)
    kinds = {event["event"] for event in events}
    assert {"report", "command", "decision"} <= kinds
    (plain,) = runs["none"][2].glob("*.jsonl")
    assert not {json.loads(line)["event"] for line in plain.read_text().splitlines()} & {"command", "decision"}


def test_a_result_without_keys_of_an_operator_has_no_completeness(spark: SparkSession) -> None:
    query = reshape.flow(spark.range(0, 1_000, 1, 2)).agg({"id": "sum"}).start()
    query.awaitTermination(LIMIT_S)
    shown = query.shown()
    assert shown is not None
    assert shown.final
    assert shown.table.column(0).to_pylist() == [499_500]
    assert shown.completeness is None
    query.release()
