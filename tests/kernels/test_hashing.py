import datetime as dt
import decimal
import pickle
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reshape.kernels.hashing import UnsupportedKeyType, hash_rows, is_injective, mini_partitions, owners

NAN = float("nan")
PINNED_STRINGS = [
    692781835583778951,
    4421533451309798848,
    18147841610580164247,
    11480898636837018294,
    15720345378441193132,
]
PINNED_ROWS = [13707839262489929474, 1513012104097661481]
STRANGE_NAN = np.array([0x7FF0000000000123, 0xFFF8000000000000], dtype=np.uint64).view(np.float64)


def hashes(values: Sequence[object], kind: pa.DataType | None = None) -> list[int]:
    hashed: list[int] = hash_rows([pa.array(values, type=kind)]).tolist()
    return hashed


def test_values_never_change() -> None:
    """A checkpoint or another process may hold hashes: whoever changes these numbers breaks them."""
    assert hashes([0, 1, -1]) == [16294208416658607535, 10451216379200822465, 16490336266968443936]
    assert hashes(["", "a", "12345678", "123456789", "x" * 300]) == PINNED_STRINGS
    columns = [pa.array([1, None]), pa.array(["a", None]), pa.array([True, None])]
    assert hash_rows(columns).tolist() == PINNED_ROWS


def test_integers_of_all_widths_agree() -> None:
    kinds = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
    assert len({tuple(hashes([-5, 0, 7], kind)) for kind in kinds}) == 1
    unsigned = [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
    assert len({tuple(hashes([5, 0, 7], kind)) for kind in unsigned}) == 1


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.float16()])
def test_nan_is_one_value_and_zero_has_no_sign(kind: pa.DataType) -> None:
    assert len(set(hashes([0.0, -0.0], kind))) == 1
    assert len({*hashes([NAN], kind), *hash_rows([pa.array(STRANGE_NAN)]).tolist()}) == 1
    assert hashes([1.5], kind) == hashes([1.5])


def test_strings_and_bytes_of_all_layouts_agree() -> None:
    words = ["", "a", "straße", "日本語", "x" * 7, "x" * 8, "x" * 9, "x" * 1000, None]
    plain = hashes(words, pa.string())
    assert len(set(plain)) == len(words)
    for kind in (pa.large_string(), pa.string_view()):
        assert hashes(words, kind) == plain
    raw = [None if word is None else word.encode() for word in words]
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        assert hashes(raw, kind) == plain
    assert hash_rows([pa.array(words).dictionary_encode()]).tolist() == plain
    assert hashes([b"abcd", b"efgh"], pa.binary(4)) == hashes(["abcd", "efgh"])


def test_padding_and_position_count() -> None:
    values = ["a", "a\0", "a\0\0\0\0\0\0\0", "a\0\0\0\0\0\0\0\0", "\0a", "abcdefgh12345678", "12345678abcdefgh"]
    assert len(set(hashes(values))) == len(values)


def test_bytes_behind_the_value_do_not_count() -> None:
    whole = pa.array(["abc", "defgh", "i" * 20, "abc", "z"])
    assert hash_rows([whole.slice(3, 1)]).tolist() == hashes(["abc"])
    assert hash_rows([whole.slice(1, 2)]).tolist() == hashes(["defgh", "i" * 20])


def test_decimals_of_one_scale_agree() -> None:
    values = [decimal.Decimal(text) for text in ("1.50", "-1.50", "0.00", "99999.99")]
    wide = hashes([*values, None], pa.decimal128(38, 2))
    assert hashes([*values, None], pa.decimal128(7, 2)) == wide
    assert hashes([*values, None], pa.decimal64(7, 2)) == wide
    assert hashes([*values, None], pa.decimal32(7, 2)) == wide
    assert len(set(wide)) == 5
    assert len(set(hashes(values, pa.decimal256(60, 2)))) == 4


def test_times_agree_in_all_units() -> None:
    moment = dt.datetime(1950, 5, 17, 12, 30, 59, tzinfo=dt.UTC)
    units = ("s", "ms", "us", "ns")
    assert len({hashes([moment], pa.timestamp(unit, tz="UTC"))[0] for unit in units}) == 1
    assert len({hashes([moment.replace(tzinfo=None)], pa.timestamp(unit))[0] for unit in units}) == 1
    assert len({hashes([dt.timedelta(seconds=-3)], pa.duration(unit))[0] for unit in units}) == 1
    assert hashes([dt.time(1, 2, 3)], pa.time32("s")) == hashes([dt.time(1, 2, 3)], pa.time64("ns"))
    assert hashes([dt.date(1969, 12, 31)], pa.date32()) == hashes([dt.date(1969, 12, 31)], pa.date64())


def test_null_is_a_constant_and_differs_from_values() -> None:
    kinds = [pa.int64(), pa.string(), pa.float64(), pa.bool_(), pa.decimal128(5, 1), pa.date32(), pa.null()]
    assert len({hashes([None], kind)[0] for kind in kinds}) == 1
    assert hashes([None, 3, None])[1] == hashes([3])[0]
    assert not set(hashes([None])) & set(hashes([0, 1, -1]))
    masked = pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\x01"), pa.py_buffer(np.array([5, 77]).tobytes())])
    assert hash_rows([masked]).tolist() == hashes([5, None])


def test_columns_are_told_apart() -> None:
    a, b = pa.array([1, 2]), pa.array([2, 1])
    assert hash_rows([a, b]).tolist() == hash_rows([b, a]).tolist()[::-1]
    assert hash_rows([a, b])[0] != hash_rows([b, a])[0]
    assert (
        hash_rows([pa.array([None, 1]), pa.array([1, None])]).tolist()[0]
        != hash_rows([pa.array([1, None]), pa.array([None, 1])]).tolist()[0]
    )
    strings = hash_rows([pa.array(["ab", "a"]), pa.array(["c", "bc"])])
    assert strings[0] != strings[1]


def test_dictionaries_with_nulls_in_both_places() -> None:
    encoded = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2], pa.int8()), pa.array(["a", None, "b"]))
    assert hash_rows([encoded]).tolist() == hashes(["a", None, None, "b"])
    empty = pa.DictionaryArray.from_arrays(pa.array([None], pa.int8()), pa.array([], pa.string()))
    assert hash_rows([empty]).tolist() == hashes([None])
    decimals = pa.array([decimal.Decimal("1.5"), decimal.Decimal("2.5"), decimal.Decimal("1.5")])
    assert hash_rows([decimals.dictionary_encode()]).tolist() == hash_rows([decimals]).tolist()


def test_structs() -> None:
    kind = pa.struct([("a", pa.int64()), ("b", pa.string())])
    found = hashes([{"a": 1, "b": "x"}, {"a": 1, "b": None}, None, {"a": None, "b": None}, {"a": 1, "b": "x"}], kind)
    assert found[0] == found[4]
    assert len(set(found)) == 4
    whole = pa.array([{"a": i, "b": str(i)} for i in range(10)], kind)
    assert hash_rows([whole.slice(3, 4)]).tolist() == hash_rows([whole]).tolist()[3:7]


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int64()), pa.map_(pa.string(), pa.int64()), pa.struct([("l", pa.list_(pa.int8()))])]
)
def test_types_without_equality_are_an_error(kind: pa.DataType) -> None:
    with pytest.raises(UnsupportedKeyType, match="column 1 of type") as caught:
        hash_rows([pa.array([1]), pa.array([None], kind)])
    assert caught.value.column == 1
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_no_columns_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one key column"):
        hash_rows([])


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.bool_(), pa.decimal128(9, 2), pa.null(), pa.float32()])
def test_empty_arrays(kind: pa.DataType) -> None:
    assert len(hash_rows([pa.array([], kind)])) == 0
    assert len(hash_rows([pa.array([None, None], kind).slice(2)])) == 0


VALUES = st.one_of(
    st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))).map(lambda v: pa.array(v, pa.int64())),
    st.lists(st.one_of(st.none(), st.text(max_size=30))).map(lambda v: pa.array(v, pa.string())),
    st.lists(st.one_of(st.none(), st.binary(max_size=300))).map(lambda v: pa.array(v, pa.binary())),
    st.lists(st.one_of(st.none(), st.booleans())).map(lambda v: pa.array(v, pa.bool_())),
    st.lists(st.one_of(st.none(), st.floats())).map(lambda v: pa.array(v, pa.float64())),
    st.lists(st.one_of(st.none(), st.decimals(-9999, 9999, places=2))).map(lambda v: pa.array(v, pa.decimal128(6, 2))),
)


@settings(max_examples=150)
@given(array=VALUES, start=st.integers(0, 20), length=st.integers(0, 20))
def test_a_row_hashes_the_same_wherever_it_stands(array: pa.Array, start: int, length: int) -> None:
    whole = hash_rows([array]).tolist()
    start = min(start, len(array))
    assert hash_rows([array.slice(start, length)]).tolist() == whole[start : start + length]
    alone = [hash_rows([pa.array([value.as_py()], array.type)]).tolist()[0] for value in array]
    assert alone == whole
    assert hash_rows([pa.chunked_array([array.slice(0, start), array.slice(start)], type=array.type)]).tolist() == whole


@pytest.mark.parametrize(
    "array",
    [
        pa.array(np.arange(100_000)),
        pa.array(np.arange(100_000) * 4096),
        pa.array(np.arange(100_000) << 40),
        pa.array(np.arange(100_000) / 7),
        pa.array([f"user_{i}" for i in range(100_000)]),
        pa.array([f"{i:032d}" for i in range(100_000)]),
        pa.array([decimal.Decimal(i) for i in range(100_000)], pa.decimal128(38, 0)),
    ],
    ids=["counting", "multiples", "high bits", "floats", "strings", "long strings", "decimals"],
)
@pytest.mark.parametrize("parts", [2, 7, 16, 48, 1000])
def test_keys_spread_evenly(array: pa.Array, parts: int) -> None:
    """Chi-square over owners, over mini-partitions, and over the mini-partitions of one owner."""
    found = hash_rows([array])
    assert len(np.unique(found)) == len(array)
    low = owners(found, parts)
    high = mini_partitions(found, parts, parts) // parts
    for chosen in (low, high, high[low == 0]):
        counts = np.bincount(chosen, minlength=parts)
        assert len(counts) == parts
        mean = len(chosen) / parts
        surprise = ((counts - mean) ** 2).sum() / mean
        assert surprise < parts + 5 * np.sqrt(2 * parts) + 5


def test_every_input_bit_changes_half_of_the_output() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2**63, 2000)
    base = hash_rows([pa.array(values)])
    for bit in range(64):
        flipped = (values.view(np.uint64) ^ np.uint64(1 << bit)).view(np.int64)
        changed = np.unpackbits((base ^ hash_rows([pa.array(flipped)])).view(np.uint8)).mean()
        assert 0.48 < changed < 0.52


def test_injective_hashes_are_known() -> None:
    assert is_injective([pa.int64()])
    assert is_injective([pa.float32()])
    assert is_injective([pa.timestamp("us", tz="UTC")])
    assert not is_injective([pa.timestamp("ns")])
    assert not is_injective([pa.string()])
    assert not is_injective([pa.int64(), pa.int64()])
    assert not is_injective([pa.decimal128(9, 2)])
