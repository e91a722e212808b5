"""Batches with values that are hard to get right, two columns of each type."""

import decimal
import math
import random
from typing import Any

import pyarrow as pa

NAN = math.nan
TEXTS = [
    "", " ", "a", "A", "ab", "aB c", "  ab ", "\tab\n", "ß", "straße", "ÄÖÜ", "日本", "日本語",
    "😀x😀", "a%b_c", "a\\b", "100%", "ΑΣ", "ΑΣ.Σ", "ǆ", "ǅ", "ŉ", "İi", "ﬁ", "x" * 40, "a\nb",
    "\u00a0a\u00a0", "é", "\U0010ffff", "a\x00", "aaa", "abab", "b", "2020-01-01", "12", "-7", "1e3", "true",
]  # fmt: skip
DAY = 86_400_000_000


def _integers(bits: int) -> list[int]:
    top = 2 ** (bits - 1)
    return [0, 1, -1, 2, -2, 3, 7, -7, 10, 100, -100, top - 1, -top, top - 2, -top + 1, top // 2, -(top // 2)]


DOUBLES = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.1, 3.3, 1e10, 1e300, -1e300, 5e-324, NAN, math.inf,
    -math.inf, 2.0**31, -(2.0**31), 2.0**31 - 1, 2.0**63, -(2.0**63), 2.0**53 + 2, 127.9, -128.9, 128.0,
    32767.5, 1e40, 2147483647.5, -2147483648.5,
]  # fmt: skip
FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 0.1, 3.3, 1e10, 1e-45, NAN, math.inf, -math.inf, 2.0**31, 2.0**63,
    127.9, 3e38, -129.0,
]  # fmt: skip
DATES = [
    0, -1, 1, 18262, 18321, 18322, 11016, 10956, -719162, -719163, -719529, 2932896, 2932897, -141428, 20819,
    19417, -25509, 365, 364,
]  # fmt: skip
# Around changes of the clock in Berlin, New York, Sao Paulo, Lord Howe; far past and far future; fractions.
INSTANTS = [
    0, -1, 1, 1_577_836_800_000_000, 1_585_443_599_999_999, 1_585_443_600_000_000, 1_603_587_600_000_000,
    1_603_584_000_000_001, 1_583_650_800_000_000, 1_604_210_400_000_000, 1_541_300_400_000_000,
    1_541_296_800_000_000, -5_364_662_400_000_000, -62_135_596_800_000_000, -62_135_596_800_000_001,
    253_402_300_799_999_999, 253_402_300_800_000_000, 4_102_444_800_123_456, 16_725_225_600_000_000,
    18_000_000_000_000_000, -2_717_650_800_000_000, -3_000_000_000_123_456, 1_234_567_890_120_000,
]  # fmt: skip
EXTREME_INSTANTS = [2**63 - 1, -(2**63), 2**62, -(2**62)]


def decimals(precision: int, scale: int) -> list[decimal.Decimal]:
    top = 10**precision - 1
    whole = [0, 1, -1, 5, -5, 15, 25, -25, 149, 150, -150, 12345, top, -top, top - 1, top // 2, 10 ** (precision - 1)]
    with decimal.localcontext(decimal.Context(prec=60)):
        return [decimal.Decimal(n % (top + 1) if n > 0 else -(-n % (top + 1))).scaleb(-scale) for n in whole]


TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "b": (pa.bool_(), [True, False]),
    "byte": (pa.int8(), _integers(8)),
    "short": (pa.int16(), _integers(16)),
    "int": (pa.int32(), _integers(32)),
    "long": (pa.int64(), _integers(64)),
    "f": (pa.float32(), FLOATS),
    "d": (pa.float64(), DOUBLES),
    "dec7_": (pa.decimal128(7, 2), decimals(7, 2)),
    "dec15_": (pa.decimal128(15, 2), decimals(15, 2)),
    "dec18_": (pa.decimal128(18, 6), decimals(18, 6)),
    "dec20_": (pa.decimal128(20, 0), decimals(20, 0)),
    "dec38_": (pa.decimal128(38, 10), decimals(38, 10)),
    "s": (pa.string(), TEXTS),
    "bin": (pa.binary(), [b"", b"\x00", b"\xff", b"a", b"ab", b"\x7f\x80"]),
    "date": (pa.date32(), DATES),
    "ts": (pa.timestamp("us", tz="UTC"), INSTANTS),
    "ntz": (pa.timestamp("us"), INSTANTS),
}


def batch(seed: int = 1, rows: int = 150) -> pa.RecordBatch:
    """Columns named by type and 1 or 2, for example int1 and int2; a tenth of the values are null."""
    draw = random.Random(seed)
    columns = {}
    for name, (kind, values) in TYPES.items():
        # The first column holds each value at least once.
        padded = [*values, None] + [draw.choice(values) for _ in range(rows)]
        first = padded[:rows]
        draw.shuffle(first)
        second = [None if draw.random() < 0.1 else draw.choice(values) for _ in range(rows)]
        columns[f"{name}1"] = pa.array(first, type=kind)
        columns[f"{name}2"] = pa.array(second, type=kind)
    return pa.RecordBatch.from_pydict(columns)
