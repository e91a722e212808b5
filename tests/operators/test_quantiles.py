"""Approximate percentiles keep a bounded number of values, and are no further off than they promise."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from reshape.operators.aggregates.approx_percentiles import ApproxPercentile
from reshape.operators.aggregates.base import Groups

ROWS = 30_000
ACCURACY = 50
SHARES = tuple(np.round(np.linspace(0, 1, 41), 3).tolist())
OF = ApproxPercentile("near", 0, SHARES, as_list=True, accuracy=ACCURACY)


def orders() -> dict[str, npt.NDArray[np.float64]]:
    random = np.random.default_rng(5)
    up = np.arange(ROWS, dtype=np.float64)
    heavy = np.where(random.random(ROWS) < 0.6, 7.0, random.normal(size=ROWS))
    # Each value lands between the two before it, where least is known.
    inwards = np.empty(ROWS)
    inwards[::2], inwards[1::2] = up[: ROWS // 2], up[: ROWS // 2 - 1 : -1]
    special = random.normal(size=ROWS)
    special[::7], special[::11] = np.nan, np.inf
    return {
        "up": up,
        "down": up[::-1],
        "shuffled": random.permutation(up),
        "heavy value": heavy,
        "inwards": inwards,
        "no numbers": special,
    }


ORDERS = orders()


def off_by(values: npt.NDArray[np.float64], found: float, share: float) -> float:
    """Ranks between the percentile and a value that was found for it."""
    below = np.sum(values < found) if not np.isnan(found) else np.sum(~np.isnan(values))
    equal = np.sum(np.isnan(values)) if np.isnan(found) else np.sum(values == found)
    rank = max(1.0, np.ceil(share * len(values)))
    return float(max(below + 1 - rank, rank - below - equal, 0))


@pytest.mark.parametrize("pieces", [1, 7, 300])
@pytest.mark.parametrize("order", ORDERS)
def test_no_percentile_is_further_off_than_promised(order: str, pieces: int) -> None:
    """Two groups, of which one gets every row and the other some; parts are merged as they come, and all at the end."""
    values, logic = ORDERS[order], OF.logic([pa.field("v", pa.float64())])
    ends: list[list[pa.Array]] = []
    most = 0
    for number, part in enumerate(np.array_split(values, pieces)):
        few = part[:3]
        groups = Groups(np.repeat([0, 1], [len(part), len(few)]).astype(np.int64), 2)
        state = logic.update([pa.array(np.concatenate([part, few]))], groups)
        if number % 5 or not ends:
            ends.append(state)
        else:
            both = [pa.concat_arrays([mine, new]) for mine, new in zip(ends[-1], state, strict=True)]
            ends[-1] = logic.merge(both, Groups(np.array([0, 1, 0, 1]), 2))
            most = max(most, len(ends[-1][0][0]))
    whole = [pa.concat_arrays(list(column)) for column in zip(*ends, strict=True)]
    state = logic.merge(whole, Groups(np.tile([0, 1], len(ends)).astype(np.int64), 2))
    found = logic.finish(state).to_pylist()
    for value, share in zip(found[0], SHARES, strict=True):
        assert off_by(values, value, share) <= ROWS / ACCURACY
    assert (found[0][0], found[0][-1]) == (np.nanmin(values), pytest.approx(np.sort(values)[-1], nan_ok=True))
    assert max(most, len(state[0][0])) < ROWS / 10
    few = np.concatenate([part[:3] for part in np.array_split(values, pieces)])
    if len(few) < 256:  # all of it is known; at the ends Spark has the least and the largest value
        inner = list(zip(found[1], SHARES, strict=True))[1:-1]
        assert all(off_by(few, value, share) == 0 for value, share in inner)
