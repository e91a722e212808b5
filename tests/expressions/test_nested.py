"""Random trees of expressions over all types, compiled by Spark, with and without ANSI rules."""

import random
from typing import Any

import pytest

from .comparing import Rows, assert_same
from .samples import batch

# No constants that arithmetic could fail on: Spark would compute such parts, and fail, before it sees a row.
LEAVES = {
    "int": ["int1", "int2", "cast(null as int)", "cast(short1 as int)"],
    "long": ["long1", "long2", "cast(int1 as bigint)"],
    "double": ["d1", "d2", "cast(int1 as double)", "cast(f1 as double)"],
    "decimal": ["dec7_1", "dec7_2", "cast(1.50 as decimal(7,2))"],
    "string": ["s1", "s2", "'ab'", "''", "cast(int1 as string)"],
    "date": ["date1", "date2", "date'2020-02-29'"],
    "boolean": ["b1", "b2", "s1 is null", "true"],
}
# Templates by the type that they give, one a line.
GROWN = {
    "int": """
        ({int} + {int})
        ({int} - 7)
        ({int} * {int})
        ({int} % {int})
        pmod({int}, 3)
        length({string})
        year({date})
        if({boolean}, {int}, {int})
        coalesce({int}, {int}, 0)
        cast({long} as int)
        datediff({date}, {date})
        case when {boolean} then {int} when {boolean} then {int} end
        nullif(int1, {int})
        greatest({int}, {int})
    """,
    "long": """
        ({long} + {long})
        ({long} * 3)
        ({int} div {int})
        if({boolean}, {long}, {long})
        cast({double} as bigint)
    """,
    "double": """
        ({double} + {double})
        ({double} * 0.1D)
        ({double} / {double})
        if({boolean}, {double}, {double})
        (-({double}))
        nanvl({double}, double('NaN'))
    """,
    "decimal": """
        if({boolean}, {decimal}, {decimal})
        cast({decimal} + {decimal} as decimal(7,2))
        cast({int} as decimal(7,2))
    """,
    "string": """
        substring({string}, 2, 3)
        upper({string})
        trim({string})
        coalesce({string}, {string})
        cast({date} as string)
    """,
    "date": """
        date_add({date}, 3)
        if({boolean}, {date}, {date})
        trunc({date}, 'month')
    """,
    "boolean": """
        ({boolean} and {boolean})
        ({boolean} or {boolean})
        (not {boolean})
        ({int} < {int})
        ({long} >= {long})
        ({double} = {double})
        ({double} < {double})
        ({string} <= {string})
        ({decimal} > {decimal})
        ({date} = {date})
        ({int} <=> {int})
        ({int} in (1, 2, null))
        ({string} like 'a%_b')
        ({double} is null)
        ({double} in (0.0D, double('NaN')))
    """,
}


def grown(draw: random.Random, kind: str, depth: int) -> str:
    """A random expression of a type, as SQL."""
    if depth == 0:
        return draw.choice(LEAVES[kind])
    template = draw.choice(GROWN[kind].strip().splitlines()).strip()
    parts = []
    while "{" in template:
        before, rest = template.split("{", 1)
        name, template = rest.split("}", 1)
        parts += [before, grown(draw, name, draw.randrange(depth))]
    return "".join([*parts, template])


@pytest.mark.parametrize(("ansi", "seed"), [("true", 1), ("false", 2)])
def test_nested(spark: Any, tmp_path_factory: pytest.TempPathFactory, ansi: str, seed: int) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", ansi)
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    rows = Rows.of(session, batch(seed, rows=80), tmp_path_factory.mktemp("rows"))
    draw = random.Random(seed)
    assert_same(rows, [grown(draw, kind, 3) for kind in GROWN for _ in range(7)])


def test_filters_of_a_query(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The condition of a Filter, as the optimizer leaves it above a relation."""
    from reshape.expressions.evaluate import filter_batch
    from reshape.expressions.translate import session_facts, translate
    from reshape.plan.analysis import kind, scala_list

    rows = Rows.of(spark, batch(3), tmp_path_factory.mktemp("rows"))
    wanted = rows.df.where("int1 > 2 and s1 like 'a%' or d1 >= d2 and dec7_1 + 1 > dec7_2 and year(date1) = 2020")
    plan = wanted._jdf.queryExecution().optimizedPlan()
    assert kind(plan) == "Filter"
    numbers = {name: number for number, name in enumerate(rows.batch.schema.names)}
    columns = {one.exprId().id(): numbers[one.name()] for one in scala_list(plan.child().output())}
    ours = filter_batch(translate(plan.condition(), columns, session_facts(spark)), rows.batch)
    assert 0 < ours.num_rows == wanted.count() < rows.batch.num_rows
