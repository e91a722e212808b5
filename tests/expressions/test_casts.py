"""Casts between the table's types, with and without ANSI rules, and try_cast."""

from typing import Any

import pytest

from reshape.expressions.translate import NotExact

from .comparing import Rows, assert_same, translated
from .samples import batch

NUMBERS = ["byte", "short", "int", "long", "f", "d", "b"]
NAMES = ["tinyint", "smallint", "int", "bigint", "float", "double", "boolean"]
DECIMALS = ["dec7_", "dec15_", "dec18_", "dec20_", "dec38_"]
DECIMAL_NAMES = ["decimal(3,0)", "decimal(7,2)", "decimal(10,4)", "decimal(18,6)", "decimal(20,0)", "decimal(38,18)"]


@pytest.fixture(scope="module", params=["true", "false"], ids=["ansi", "legacy"])
def rows(request: pytest.FixtureRequest, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    session = spark.newSession()
    for key in ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode", "spark.sql.session.timeZone"):
        session.conf.set(key, spark.conf.get(key))
    session.conf.set("spark.sql.ansi.enabled", request.param)
    return Rows.of(session, batch(), tmp_path_factory.mktemp("rows"))


@pytest.mark.parametrize("function", ["cast", "try_cast"])
def test_between_numbers(rows: Rows, function: str) -> None:
    assert_same(rows, [f"{function}({source}1 as {target})" for source in NUMBERS for target in NAMES])


@pytest.mark.parametrize("function", ["cast", "try_cast"])
def test_decimals(rows: Rows, function: str) -> None:
    to_numbers = [f"{function}({d}1 as {t})" for d in DECIMALS for t in NAMES if t != "float"]
    from_numbers = [f"{function}({s}1 as {d})" for s in NUMBERS if s not in ("f", "d") for d in DECIMAL_NAMES]
    between = [f"{function}({source}1 as {target})" for source in DECIMALS for target in DECIMAL_NAMES]
    assert_same(rows, to_numbers + from_numbers + between)


def test_to_texts(rows: Rows) -> None:
    sources = ["byte1", "short1", "int1", "long1", "b1", "date1", "dec7_1", "dec15_1", "dec18_1", "dec20_1"]
    assert_same(rows, [f"cast({source} as string)" for source in sources] + ["cast(s1 as binary)"])


@pytest.mark.parametrize(
    "sql",
    [
        "cast(s1 as int)",
        "cast(d1 as string)",
        "cast(f1 as string)",
        "cast(d1 as decimal(10,2))",
        "cast(dec7_1 as float)",
        "cast(dec38_1 as string)",
        "cast(bin1 as string)",
        "cast(s1 as date)",
    ],
)
def test_refused(rows: Rows, sql: str) -> None:
    [answer] = translated(rows, [sql])
    assert isinstance(answer, NotExact)


def test_old_ways_of_printing_dates_are_refused(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.legacy.timeParserPolicy", "LEGACY")
    rows = Rows.of(session, batch(), tmp_path_factory.mktemp("rows"))
    [answer] = translated(rows, ["cast(date1 as string)"])
    assert isinstance(answer, NotExact)
    assert "LEGACY" in answer.reason
