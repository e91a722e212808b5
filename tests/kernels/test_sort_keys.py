from bisect import bisect_left
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from reshape.kernels import sort_keys
from reshape.kernels.ordering import Ordering, SortKey
from reshape.kernels.sort_keys import digits_of, range_ids, sorted_order

ROWS = 3_000


def columns(seed: int) -> dict[str, pa.Array]:
    rng = np.random.default_rng(seed)
    absent = rng.random(ROWS) < 0.1
    few = rng.integers(-3, 4, ROWS)
    return {
        "small span": pa.array(few, mask=absent),
        "wide": pa.array(rng.integers(-(2**62), 2**62, ROWS)),
        "all bits": pa.array(np.where(few > 0, 2**63 - 1, -(2**63))),
        "float": pa.array(np.where(few == 0, np.nan, few * -0.5), mask=absent),
        "repeated string": pa.array([None if v == 2 else "x" * 20 + str(v) for v in few.tolist()]),
        "different string": pa.array([f"{v}-{i}" for i, v in enumerate(few.tolist())]),
        "only nulls": pa.nulls(ROWS, pa.string()),
        "one string": pa.array(["same"] * ROWS),
    }


def in_runs(keys: list[pa.Array], ordering: Ordering) -> list[pa.Array]:
    """The same rows as two sorted runs."""
    halves = np.array_split(np.arange(len(keys[0])), 2)
    rows = [half[sorted_order([key.take(pa.array(half)) for key in keys], ordering)] for half in halves]
    return [key.take(pa.array(np.concatenate(rows))) for key in keys]


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("merging", [True, False])
def test_packed_digits_and_ranks_order_as_plain_digits_do(
    ascending: bool, merging: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = columns(seed=1)
    for names in product(arrays, repeat=2):
        keys = [arrays[name].slice(5) for name in names]
        ordering = Ordering((SortKey(0, ascending, nulls_first=True), SortKey(1, not ascending, nulls_first=False)))
        keys = in_runs(keys, ordering) if merging else keys
        found = sorted_order(keys, ordering)
        with monkeypatch.context() as patch:
            patch.setattr(sort_keys, "_LEAST_PACKED", ROWS + 1)
            wanted = sorted_order(keys, ordering)
        assert (found == wanted).all(), names


def long_texts() -> list[bytes | None]:
    """Texts that are equal for longer than digits of eight bytes are made of, and end in odd places."""
    lengths = (0, 1, 4_090, 4_096, 4_097, 5_003, 8_192, 8_193, 20_000, 70_001)
    texts: list[bytes | None] = [
        b"x" * length + end for length in lengths for end in (b"", b"\0", b"\0\0", b"y", b"\xff")
    ]
    return [*texts, None, *texts[::-1], b"x" * 4_099 + b"y" * 100_000, b"x" * 4_099 + b"y" * 100_000 + b"z"]


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("begin", [b"", b"user_", b"s" * 5_001])
def test_long_texts_are_ordered_by_their_bytes(ascending: bool, begin: bytes) -> None:
    texts = [None if text is None else begin + text for text in long_texts()]
    found = sorted_order([pa.array(texts, pa.binary())], Ordering((SortKey(0, ascending, nulls_first=True),)))
    bytes_first = sorted((text for text in texts if text is not None), reverse=not ascending)
    assert [texts[row] for row in found] == [None, *bytes_first]


def test_ranges_of_long_texts() -> None:
    texts = [text for text in long_texts() if text is not None]
    bounds = sorted(set(texts))[::7]
    found = range_ids([pa.array([*bounds, *texts], pa.binary())], Ordering((SortKey(0),)), len(bounds))
    assert found.tolist() == [bisect_left(bounds, text) for text in texts]


def test_a_text_of_a_megabyte_is_no_hundred_thousand_steps() -> None:
    digits = digits_of([pa.array(["x" * 1_000_000] * 2)], Ordering((SortKey(0),)))
    assert sum(1 for _ in digits) < 1_000
