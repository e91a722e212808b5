"""Arithmetic of all numeric types, with and without ANSI rules: values, nulls and errors as in Spark."""

from typing import Any

import pytest

from .comparing import Rows, assert_same
from .samples import batch

INTEGERS = ["byte", "short", "int", "long"]
FLOATS = ["f", "d"]
DECIMALS = ["dec7_", "dec15_", "dec18_"]


@pytest.fixture(scope="module", params=["true", "false"], ids=["ansi", "legacy"])
def rows(request: pytest.FixtureRequest, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    session = spark.newSession()
    for key in ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode", "spark.sql.session.timeZone"):
        session.conf.set(key, spark.conf.get(key))
    session.conf.set("spark.sql.ansi.enabled", request.param)
    return Rows.of(session, batch(), tmp_path_factory.mktemp("rows"))


def test_integers(rows: Rows) -> None:
    signs = ["+", "-", "*", "%", "&", "|", "^"]
    assert_same(
        rows,
        [f"{name}1 {sign} {name}2" for name in INTEGERS for sign in signs]
        + [f"pmod({name}1, {name}2)" for name in INTEGERS]
        + [f"-{name}1" for name in INTEGERS]
        + [f"~{name}1" for name in INTEGERS]
        + [f"abs({name}1)" for name in INTEGERS]
        + ["long1 div long2", "int1 div int2", "int1 / int2", "int1 + 1", "long1 * 3", "int1 % 7", "int1 + long2"],
    )


def test_floats(rows: Rows) -> None:
    signs = ["+", "-", "*", "%"]
    assert_same(
        rows,
        [f"{name}1 {sign} {name}2" for name in FLOATS for sign in signs]
        + [f"pmod({name}1, {name}2)" for name in FLOATS]
        + [f"-{name}1" for name in FLOATS]
        + [f"abs({name}1)" for name in FLOATS]
        + ["d1 / d2", "f1 / f2", "sqrt(d1)", "d1 + f1", "d1 * int1", "d1 / 0"],
    )


def test_decimals(rows: Rows) -> None:
    pairs = [(left, right) for left in DECIMALS for right in DECIMALS]
    assert_same(
        rows,
        [f"{left}1 {sign} {right}2" for left, right in pairs for sign in "+-*"]
        + ["dec7_1 / dec7_2", "dec15_1 / dec7_2", "dec15_1 / dec15_2", "dec15_1 / 3", "dec20_1 / 7", "dec7_1 / dec15_2"]
        + [f"-{name}1" for name in [*DECIMALS, "dec20_"]]
        + [f"abs({name}1)" for name in [*DECIMALS, "dec20_"]]
        + ["dec15_1 * (1 - dec7_2)", "dec15_1 * (1 - dec7_1) * (1 + dec7_2)", "dec20_1 + 1", "dec7_1 * int1"],
    )


def test_try_functions(rows: Rows) -> None:
    assert_same(
        rows,
        [f"try_{name}({kind}1, {kind}2)" for kind in INTEGERS for name in ("add", "subtract", "multiply")]
        + ["try_divide(int1, int2)", "try_divide(d1, d2)", "try_divide(dec7_1, dec7_2)", "try_add(d1, d2)"],
    )


def test_errors_come_only_for_rows_that_are_reached(rows: Rows) -> None:
    assert_same(
        rows,
        [
            "if(int2 != 0, int1 % int2, -1)",
            "int2 != 0 and int1 % int2 = 1",
            "int2 = 0 or int1 % int2 = 1",
            "case when int2 = 0 then null when int1 > 0 then int1 div int2 else int1 + 1 end",
            "coalesce(int1, int2 % int1, int2)",
            "nullif(int1, 0) + long1 % long2",
            "if(b1, int1 % int2, int2 % int1)",
            "b1 and b2 and int1 % int2 > 0",
            "(int1 % int2) <=> int1",
            "int1 % (int2 % int1)",
            "(int1 + int2) in (1, 2, 3)",
            "(int1 + int2) is null",
            "case when b1 then if(b2, int1 * int2, 0) end",
        ],
    )
