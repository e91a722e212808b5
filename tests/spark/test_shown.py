"""What a running flow shows, how far that can be trusted, and what it tells about its decisions."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import reshape
from reshape.flows import Flow
from reshape.observe.representativeness import Shown
from reshape.query import Query

ROWS = 24_000
LIMIT_S = 120.0
ANSWER = {0: 17_999, **dict.fromkeys(range(1, 7), 1_000), 7: 1}
# Emulated, for a row. At the first one the worker of key 0 has work for seconds, so that there is load to move; at the
# second one for longer than anybody waits: whoever has seen enough stops the flow.
COST_S, ENDLESS_S = 0.0002, 0.002


@pytest.fixture(scope="module")
def skewed(spark: SparkSession) -> DataFrame:
    """Three rows of four have key 0; one row has key 7."""
    key = "CASE WHEN id = 0 THEN 7 WHEN id % 4 < 3 THEN 0 ELSE 1 + id DIV 4 % 6 END AS k"
    return spark.range(0, ROWS, 1, 2).selectExpr(key, "id AS v")


def flow_of(skewed: DataFrame, strategy: str, log: Path, cost_s: float) -> Flow:
    """The cost is that of the first operator, so that groups are complete as soon as it is."""
    flow = reshape.flow(skewed, strategy=strategy, workers=4, hosts=2, event_log=str(log), joins="all")
    keys = skewed.sparkSession.range(len(ANSWER)).selectExpr("id AS k")
    return flow.join(keys, "k").groupBy("k").count().tuned("join", cost_s_per_row=cost_s)


def states(query: Query, enough: Callable[[list[Shown]], bool]) -> list[Shown]:
    """What is shown until that is enough, or until the end."""
    seen: list[Shown] = []
    deadline = time.monotonic() + LIMIT_S
    while query.isActive and not enough(seen):
        assert time.monotonic() < deadline, f"waited too long; seen: {seen[-1:]}"
        state = query.shown()
        if state is not None and (not seen or state.table != seen[-1].table):
            seen.append(state)
        time.sleep(0.02)
    return seen


def counted(state: Shown) -> dict[int, int]:
    return dict(zip(state.table["k"].to_pylist(), state.table["count"].to_pylist(), strict=True))


def trusted(state: Shown) -> dict[int, float]:
    assert state.completeness is not None
    return dict(zip(state.table["k"].to_pylist(), state.completeness, strict=True))


def assert_no_more_than_the_result(seen: list[Shown]) -> None:
    for state in seen:
        assert all(rows <= ANSWER[key] for key, rows in counted(state).items())
        assert all(0.0 <= part <= 1.0 for part in trusted(state).values())
    assert [state.seconds for state in seen] == sorted(state.seconds for state in seen)


@pytest.mark.parametrize("strategy", ["none", "reshape"])
def test_what_stays_is_the_result(skewed: DataFrame, strategy: str, tmp_path: Path) -> None:
    """Helpers' parts are with their owners by then, and are not counted twice."""
    query = flow_of(skewed, strategy, tmp_path, COST_S).start()
    seen = states(query, lambda _: False)
    query.awaitTermination()
    last = query.shown()
    assert last is not None
    assert_no_more_than_the_result([*seen, last])
    assert last.final
    assert counted(last) == ANSWER
    assert trusted(last) == dict.fromkeys(ANSWER, 1.0)
    assert last.representativeness.overall == 1.0
    assert {row["k"]: row["count"] for row in query.result(LIMIT_S).collect()} == ANSWER
    query.release()


def test_a_hot_key_is_behind_and_the_handle_says_so(skewed: DataFrame, tmp_path: Path) -> None:
    query = flow_of(skewed, "none", tmp_path, ENDLESS_S).start()
    # By then the other workers have done a third of their rows or more.
    seen = states(query, lambda seen: len(seen) > 3 and counted(seen[-1]).get(0, 0) > 0.05 * ANSWER[0])
    query.stop()
    assert_no_more_than_the_result(seen)
    late = seen[-1]
    assert not late.final
    part = counted(late)[0] / ANSWER[0]
    assert trusted(late)[0] == pytest.approx(part, abs=0.05)
    assert trusted(late)[0] == min(trusted(late).values())
    assert late.representativeness.overall < 1.0
    assert set(late.representativeness.by_operator) == {"inner join (operator 0), probe side", "group by (operator 1)"}
    assert min(late.representativeness.by_operator.values()) == late.representativeness.overall
    assert query.story() == []
    assert not {event["event"] for event in events_in(tmp_path)} & {"command", "decision"}
    query.release()


def test_the_story_and_the_log_tell_the_same(skewed: DataFrame, tmp_path: Path) -> None:
    query = flow_of(skewed, "reshape", tmp_path, ENDLESS_S).start()
    seen = states(query, lambda seen: len(seen) > 3 and bool(query.story()))
    query.stop()
    assert_no_more_than_the_result(seen)
    story, events = query.story(), events_in(tmp_path)
    decisions = [event for event in events if event["event"] == "decision"]
    assert "is skewed" in story[0]
    assert sorted(line.split(": ", 1)[1] for line in story) == sorted(event["text"] for event in decisions)
    assert {"report", "command", "decision"} <= {event["event"] for event in events}
    query.release()


def events_in(log: Path) -> list[dict[str, Any]]:
    (file,) = log.glob("*.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_result_without_keys_of_an_operator_has_no_completeness(spark: SparkSession) -> None:
    query = reshape.flow(spark.range(0, 1_000, 1, 2)).agg({"id": "sum"}).start()
    query.awaitTermination(LIMIT_S)
    shown = query.shown()
    assert shown is not None
    assert shown.final
    assert shown.table.column(0).to_pylist() == [499_500]
    assert shown.completeness is None
    query.release()
