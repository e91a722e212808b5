"""Comparisons, null tests, membership, connectives: as Spark, for every type."""

from typing import Any

import pytest

from .comparing import Rows, assert_same
from .samples import TYPES, batch


@pytest.fixture(scope="module")
def rows(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    return Rows.of(spark, batch(), tmp_path_factory.mktemp("rows"))


def test_comparisons(rows: Rows) -> None:
    signs = ["=", "<", "<=", ">", ">=", "<=>", "!="]
    assert_same(rows, [f"{name}1 {sign} {name}2" for name in TYPES for sign in signs])


def test_comparisons_with_constants(rows: Rows) -> None:
    assert_same(
        rows,
        [
            "int1 > 3",
            "long1 <= -1",
            "d1 = double('NaN')",
            "d1 < double('NaN')",
            "d1 >= double('NaN')",
            "d1 = 0.0D",
            "d1 < -0.0D",
            "f1 = float('NaN')",
            "s1 = 'ab'",
            "s1 < '日本'",
            "dec7_1 > 1.50",
            "date1 >= date'2020-01-01'",
            "ts1 < timestamp'2020-03-29 01:00:00'",
            "ntz1 < timestamp_ntz'2020-03-29 01:00:00'",
            "bin1 = X'FF'",
            "bin1 < X'7F'",
            "b1 = true",
            "dec15_1 <=> 0.05",
            "d1 <=> double('NaN')",
            "int1 <=> null",
            "isnan(d1)",
            "isnan(f1)",
        ],
    )


def test_null_tests(rows: Rows) -> None:
    assert_same(rows, [f"{name}1 is null" for name in TYPES] + [f"{name}1 is not null" for name in TYPES])


def test_membership(rows: Rows) -> None:
    many = ", ".join(map(str, range(-10, 10)))
    assert_same(
        rows,
        [
            "int1 in (1, 2, 3)",
            "int1 in (1, 2, null)",
            f"int1 in ({many})",
            f"int1 in ({many}, null)",
            f"long1 not in ({many}, null)",
            "d1 in (0.0D, 1.5D)",
            "d1 in (-0.0D, double('NaN'))",
            "f1 in (float('NaN'), float(1))",
            "f1 in (float('NaN'), null)",
            "s1 in ('a', 'ab', '日本')",
            "s1 in ('', null)",
            "dec7_1 in (0.05, 1.50)",
            "date1 in (date'2020-01-01', date'1970-01-01')",
            "ts1 in (timestamp'2020-01-01 00:00:00', timestamp'1970-01-01 00:00:00')",
            "bin1 in (X'FF', X'00')",
            "b1 in (true, null)",
            f"s1 in ({', '.join(repr(str(n)) for n in range(12))}, 'ab')",
        ],
    )


def test_connectives(rows: Rows) -> None:
    conditions = ["b1", "b2", "int1 > 2", "(d1 < d2)", "s1 is null"]
    pairs = [(left, right) for left in conditions for right in conditions if left != right]
    assert_same(rows, [f"{a} and {b}" for a, b in pairs] + [f"{a} or {b}" for a, b in pairs] + ["not b1"])


def test_conditionals(rows: Rows) -> None:
    assert_same(
        rows,
        [
            "if(b1, int1, int2)",
            "case when b1 then s1 when b2 then s2 end",
            "case when b1 then s1 when int1 > 2 then s2 else 'x' end",
            "case when d1 > d2 then d1 else d2 end",
            "coalesce(dec7_1, dec7_2)",
            "coalesce(ts1, ts2, timestamp'2020-01-01 00:00:00')",
            "coalesce(s1, 'none')",
            "nullif(int1, int2)",
            "nvl2(s1, bin1, bin2)",
            "if(b1, null, date1)",
        ],
    )
