"""Texts: code points, letters of all alphabets, patterns."""

from typing import Any

import pyarrow as pa
import pytest

from reshape.expressions.errors import BatchMismatch
from reshape.expressions.evaluate import evaluate
from reshape.expressions.translate import NotExact
from reshape.expressions.tree import Call, ColumnRef

from .comparing import Rows, assert_same, translated
from .samples import batch


@pytest.fixture(scope="module")
def rows(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    return Rows.of(spark, batch(), tmp_path_factory.mktemp("rows"))


def test_lengths_and_parts(rows: Rows) -> None:
    positions = [0, 1, 2, 3, 50, -1, -2, -3, -50, 2**31 - 1, -(2**31)]
    counts = [-1, 0, 1, 2, 3, 49, 51, 2**31 - 1]
    assert_same(
        rows,
        ["length(s1)", "length(bin1)", "octet_length(s1)", "octet_length(bin1)", "bit_length(s1)", "substr(s1, 2)"]
        + [f"substring(s1, {position}, {count})" for position in positions for count in counts]
        + ["left(s1, 2)", "right(s1, 2)", "right(s1, 0)", "reverse(s1)"],
    )


def test_trims_and_padding(rows: Rows) -> None:
    assert_same(
        rows,
        ["trim(s1)", "ltrim(s1)", "rtrim(s1)", "btrim(s1)", "trim(both 'a日' from s1)", "trim(leading ' a' from s1)"]
        + ["trim(trailing 'xb😀' from s1)", "trim(both '' from s1)"]
        + [f"{side}pad(s1, {width}, '{letter}')" for side in "lr" for width in (-1, 0, 3, 6) for letter in "x日"]
        + ["rpad(s1, 5)"],
    )


def test_joined(rows: Rows) -> None:
    assert_same(
        rows,
        [
            "s1 || s2",
            "concat(s1, '-', s2, s1)",
            "concat(bin1, bin2)",
            "concat_ws('-', s1, s2)",
            "concat_ws('', s1, 'x', s2)",
        ],
    )


def test_patterns(rows: Rows) -> None:
    patterns = [
        "%",
        "_",
        "__",
        "a%",
        "%b",
        "%a%b%",
        "a_b%",
        "_%_",
        "a%b_c",
        "",
        "日_",
        "_x_",
        "a\\\\_b",
        "a\\\\%b\\\\_c",
        "1__\\\\%",
    ]
    patterns += ["a.b", "(a", "[ab]%", "a\\n_", "%^$", "a\\\\\\\\b"]
    assert_same(
        rows,
        [f"s1 like '{pattern}'" for pattern in patterns]
        + ["s1 like 'a/%b/_c' escape '/'", "s1 not like '%a%'"]
        + ["startswith(s1, 'a')", "endswith(s1, '語')", "contains(s1, 'b')", "contains(s1, '')", "startswith(s1, '')"],
    )


def test_search_and_replacement(rows: Rows) -> None:
    assert_same(
        rows,
        [
            *("replace(s1, 'a', 'bb')", "replace(s1, 'ab')", "replace(s1, '', 'x')", "replace(s1, 'aa', 'a')"),
            *("replace(s1, '日', '')", "instr(s1, 'b')", "instr(s1, '本')", "instr(s1, 'x')", "instr(s1, '')"),
            *("locate('b', s1)", "position('語' in s1)", "locate('', s1)"),
        ],
    )


def test_letter_case(rows: Rows) -> None:
    assert_same(rows, ["upper(s1)", "lower(s1)", "upper(lower(s1))", "s1 ilike 'ÄÖ%'", "s1 ilike 'aB%'"])


def test_every_letter(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each code point by itself and beside letters, sigma among them."""
    letters = [chr(code) for code in range(1, 0x20000) if not 0xD800 <= code <= 0xDFFF]
    # Sixty in a row, which is quicker; a sigma would look at its neighbours.
    words = [
        " ".join(letters[start : start + 60]) for start in range(0, len(letters), 60) if start // 60 != 0x3A3 // 60
    ]
    near = [*letters[:0x3000], *letters[0xA000:0xA800], *letters[0x1D000:0x1D800], "\U000e0020", "\U00020000"]
    words += [f"αΣ{letter}" for letter in near] + [f"α{letter}Σ" for letter in near] + [f"αΣ{one}b" for one in near]
    words += ["Σ", "aΣ", "aΣ'b", "aΣ.", "aΣ·Σ", "İΣ", "İΣa"]
    every = pa.RecordBatch.from_pydict({"s1": pa.array(words)})
    assert_same(Rows.of(spark, every, tmp_path_factory.mktemp("letters")), ["upper(s1)", "lower(s1)"])


@pytest.mark.parametrize(
    "sql",
    [
        "s1 rlike 'a.*'",
        "s1 like s2",
        "substring(s1, int1, 2)",
        "lpad(s1, 5, 'xy')",
        "locate('a', s1, 2)",
        "initcap(s1)",
        "s1 collate UTF8_LCASE = 'a'",
        "split(s1, ',')[0]",
        "concat(s1, cast(int1 % int2 as string))",
    ],
)
def test_refused(rows: Rows, sql: str) -> None:
    [answer] = translated(rows, [sql])
    assert isinstance(answer, NotExact)


def test_bytes_that_are_no_text_are_refused() -> None:
    raw = pa.array([b"\xff\xfe"], type=pa.binary())
    text = pa.Array.from_buffers(pa.string(), 1, raw.buffers())
    call = Call("Length", (ColumnRef(0, pa.string()),), pa.int32())
    with pytest.raises(BatchMismatch, match="UTF-8"):
        evaluate(call, pa.RecordBatch.from_arrays([text], names=["s"]))
