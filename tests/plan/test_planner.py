"""From specs to operators on hosts: the planner knows no operator by its kind."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from reshape.control.balancing import Balancing
from reshape.control.profile import Split
from reshape.errors import FlowError
from reshape.operators.aggregates.counts import CountAll
from reshape.operators.aggregates.lists import Median
from reshape.operators.group_by import GroupBySpec
from reshape.operators.hash_join import JoinSpec, OutputColumn
from reshape.operators.relay import RelaySpec
from reshape.plan.balancing import profile
from reshape.plan.lineage import result_columns
from reshape.plan.nodes import MapNode, Node, OperatorNode, SourceNode, UnionNode
from reshape.plan.physical import PhysicalPlan
from reshape.plan.planner import Planner

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
COUNT = GroupBySpec(SCHEMA, (0,), (CountAll("n"),))


def tuned(options: dict[str, Any]) -> tuple[Balancing, float]:
    return Balancing(options.get("strategy", "reshape")), options.get("cost_s_per_row", 0.0)


def planned(node: Node) -> PhysicalPlan:
    return Planner(tuned, combine=True).plan(node, "planned", 2, 4)


def joined(left: Node, right: Node) -> OperatorNode:
    columns = (OutputColumn("k", left=0), OutputColumn("v", left=1))
    return OperatorNode((left, right), JoinSpec(SCHEMA, SCHEMA, (0,), (0,), "inner", columns))


def test_the_kept_side_of_a_join_is_placed_first_and_the_other_waits() -> None:
    relays = [OperatorNode((SourceNode(number, SCHEMA),), RelaySpec(SCHEMA, (0,))) for number in range(2)]
    plan = planned(joined(relays[0], relays[1]))
    assert [operator.label for operator in plan.operators] == [
        "repartition (operator 0)",
        "repartition (operator 1)",
        "inner join (operator 2)",
    ]
    assert [plan.operators[0].ports[0].sources, plan.operators[1].ports[0].sources] == [(1,), (0,)]
    assert [operator.target for operator in plan.operators] == [(2, 0), (2, 1), None]
    kept, streamed = plan.operators[2].ports
    assert (kept.operators, kept.after, kept.mutable) == ((0,), None, True)
    assert (streamed.operators, streamed.after, streamed.mutable) == ((1,), 0, False)


def test_rows_that_a_union_has_straight_from_a_source_pass_through_a_worker() -> None:
    counted = OperatorNode((SourceNode(0, SCHEMA),), RelaySpec(SCHEMA, (0,)))
    plan = planned(UnionNode(counted, SourceNode(1, SCHEMA), SCHEMA))
    assert [operator.label for operator in plan.operators] == ["repartition (operator 0)", "union (operator 1)"]
    assert plan.operators[1].ports[0].sources == (1,)
    assert plan.operators[1].ports[0].operators == ()
    assert plan.operators[0].target is None


@pytest.mark.parametrize(
    ("spec", "tuning", "combines"),
    [
        (COUNT, (), True),
        (COUNT, (("cost_s_per_row", 0.1),), False),
        (GroupBySpec(SCHEMA, (0,), (Median("m", 1),)), (), False),
        (RelaySpec(SCHEMA, (0,)), (), False),
    ],
    ids=["count", "count at an emulated cost", "median", "repartition"],
)
def test_senders_combine_what_gets_smaller_and_costs_nothing_by_row(spec: Any, tuning: Any, combines: bool) -> None:
    plan = planned(OperatorNode((SourceNode(0, SCHEMA),), spec, tuning))
    assert (plan.edge(0, 0).combine is not None) == combines


def test_tuning_holds_for_one_operator() -> None:
    first = OperatorNode((SourceNode(0, SCHEMA),), RelaySpec(SCHEMA, (0,)), (("strategy", "none"),))
    plan = planned(joined(first, SourceNode(1, SCHEMA)))
    assert [operator.mitigation.strategy for operator in plan.operators] == ["none", "reshape"]


def test_an_empty_global_aggregate_is_one_row_of_the_first_worker() -> None:
    (operator,) = planned(OperatorNode((SourceNode(0, SCHEMA),), GroupBySpec(SCHEMA, (), (CountAll("n"),)))).operators
    given = []
    for owner in range(3):
        logic = operator.logic_of(owner).build(scattered=False)
        logic.end_port(0)
        given.append([batch.to_pylist() for batch in logic.finish()])
    assert given == [[[{"n": 0}]], [], []]


def test_what_a_brain_hears_is_what_the_spec_says() -> None:
    plan = planned(OperatorNode((SourceNode(0, SCHEMA),), GroupBySpec(SCHEMA, (0,), (Median("m", 1),))))
    assert not profile(plan, plan.operators[0], 0).combinable
    ordered = MapNode(joined(SourceNode(0, SCHEMA), SourceNode(1, SCHEMA)), lambda rows: rows, SCHEMA, ordered=True)
    plan = planned(ordered)
    assert plan.split(plan.operators[0], 0).split is Split.BY_RECORDS
    assert plan.split(plan.operators[0], 1).split is Split.BY_KEYS
    assert result_columns(plan, 0, 1) is None, "a function may change keys"


def test_keys_are_followed_through_operators_to_the_result() -> None:
    join = joined(SourceNode(0, SCHEMA), SourceNode(1, SCHEMA))
    plan = planned(OperatorNode((join,), COUNT))
    assert [result_columns(plan, operator, port) for operator, port in ((0, 0), (0, 1), (1, 0))] == [(0,)] * 3
    plan = planned(OperatorNode((join,), GroupBySpec(SCHEMA, (1,), (CountAll("n"),))))
    assert result_columns(plan, 0, 0) is None


def test_a_source_that_the_plan_has_not_got_is_named() -> None:
    plan = planned(OperatorNode((SourceNode(0, SCHEMA),), COUNT))
    assert plan.source_target(0) == (0, 0)
    with pytest.raises(FlowError, match="no operator of flow 'planned' takes rows of source 1"):
        plan.source_target(1)


def test_what_feeds_a_line_chart_is_split_by_keys_as_far_as_order_reaches() -> None:
    """A join passes rows on in their order; a group-by gives its rows in none, but shows what it has so far."""
    join = joined(SourceNode(0, SCHEMA), SourceNode(1, SCHEMA))
    counted = replace(planned(OperatorNode((join,), COUNT)), ordered=True)
    build, probe, groups = (
        counted.split(counted.operators[0], 0),
        counted.split(counted.operators[0], 1),
        counted.split(counted.operators[1], 0),
    )
    assert [choice.split for choice in (build, probe, groups)] == [Split.BY_RECORDS, Split.BY_KEYS, Split.BY_RECORDS]
    assert probe.reason == "the running result needs the rows of a key in their order"
    in_between = OperatorNode((OperatorNode((join,), COUNT),), GroupBySpec(COUNT.output_schema, (1,), (CountAll("m"),)))
    twice = replace(planned(in_between), ordered=True)
    assert twice.split(twice.operators[0], 1).split is Split.BY_RECORDS, "the first groups come at the end, in no order"
    alone = replace(planned(join), ordered=True)
    assert alone.split(alone.operators[0], 1).split is Split.BY_KEYS
