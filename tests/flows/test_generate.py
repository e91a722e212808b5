"""The generated flows reach what they are there for. Needs no JVM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import pytest

from .data import KEY_TYPES, make
from .generate import AMPLE_BYTES, random_case
from .steps import Branch, Case, Combine, Distinct, Group, How, Join, Map, Repartition, Sort, Step
from .test_random_spark import SEEDS as ON_SPARK
from .test_random_threads import SEEDS as BY_THREADS

AGGREGATES = {"count", "countDistinct", "sum", "avg", "min", "max", "median", "percentile", "collect_list", "first"}
MOMENTS = {"var_samp", "var_pop", "stddev_samp", "stddev_pop"}


def steps_of(branch: Branch) -> Iterator[Step]:
    for step in branch.steps:
        yield step
        if isinstance(step, Join | Combine):
            yield from steps_of(step.right)


@pytest.fixture(scope="module", params=[BY_THREADS, ON_SPARK], ids=["by threads", "on Spark"])
def cases(request: pytest.FixtureRequest) -> list[Case]:
    return [random_case(seed) for seed in request.param]


def test_every_operator_and_its_kinds_are_there(cases: list[Case]) -> None:
    steps = [step for case in cases for step in steps_of(case.flow)]
    assert {type(step) for step in steps} == {Join, Group, Sort, Distinct, Combine, Repartition, Map}
    assert {step.how for step in steps if isinstance(step, Join)} == set(get_args(How))
    assert {step.by_name for step in steps if isinstance(step, Join)} == {True, False}
    assert {step.kind for step in steps if isinstance(step, Combine)} == {"union", "intersect", "subtract"}
    assert {step.kind for step in steps if isinstance(step, Map)} == {"twice", "drop nulls", "mark nulls"}
    used = {agg.function for step in steps if isinstance(step, Group) for agg in step.aggregates}
    assert used >= AGGREGATES
    assert {len(step.keys) for step in steps if isinstance(step, Group)} == {0, 1, 2}
    assert {key.form for step in steps if isinstance(step, Sort) for key in step.keys} >= {"asc", "desc"}
    assert {len(step.keys) for step in steps if isinstance(step, Sort)} == {1, 2, 3}


def test_chains_sizes_and_types_are_there(cases: list[Case]) -> None:
    lengths = {sum(not isinstance(step, Map) for step in steps_of(case.flow)) for case in cases}
    assert lengths == {1, 2, 3}
    inputs = [data for case in cases for data in case.inputs]
    assert {column.type for data in inputs for column in data.columns} >= set(KEY_TYPES.values())
    assert {data.rows for data in inputs} >= {0, 1, 2500}
    assert any(data.values == 1 and data.rows > 1 for data in inputs), "one key"
    assert any(data.hitter > 0.6 and data.rows > 100 for data in inputs), "a heavy hitter"
    assert {case.hosts for case in cases} == {1, 2, 3}
    assert {case.workers for case in cases} == {1, 2, 3, 4, 5, 6}
    assert {case.spill for case in cases if case.queue_bytes < AMPLE_BYTES} == {True, False}
    assert any(case.order for case in cases)


def test_every_moment_is_there() -> None:
    steps = [step for seed in (*BY_THREADS, *ON_SPARK) for step in steps_of(random_case(seed).flow)]
    assert {agg.function for step in steps if isinstance(step, Group) for agg in step.aggregates} >= MOMENTS


def test_a_seed_always_gives_the_same_flow_and_rows() -> None:
    for seed in range(20):
        once, again = random_case(seed), random_case(seed)
        assert once == again
        tables = [make(case.inputs[0], []).to_pylist() for case in (once, again)]
        assert repr(tables[0]) == repr(tables[1]), "by their texts, because NaN does not equal NaN"
