"""How far a running result is from the input seen so far.

Routers count the rows that arrive for each owner's partition; workers count those that have been processed. A result is
representative when both have the same proportions: then every group has been counted to the same extent, and the chart
has the shape that it would have if everything seen so far had been processed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reshape.observe.estimates import Estimate

if TYPE_CHECKING:
    import pandas as pd

Counts = npt.NDArray[np.int64]


def similarity(arrived: Counts, processed: Counts) -> float:
    """1 when both have the same proportions, 0 when they share nothing: 1 less the total variation distance."""
    seen, done = int(arrived.sum()), int(processed.sum())
    if seen == 0:
        return 1.0
    if done == 0:
        return 0.0
    return float(1.0 - np.abs(arrived / seen - processed / done).sum() / 2)


def completeness(arrived: Counts, processed: Counts) -> npt.NDArray[np.float64]:
    """The processed part of what has arrived, for each owner's partition."""
    whole = np.ones(len(arrived))
    return np.divide(processed, arrived, out=whole, where=arrived > 0).clip(0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Representativeness:
    """``overall`` is the least of the operators': each can distort what the later ones get."""

    overall: float
    by_operator: Mapping[str, float]

    def __str__(self) -> str:
        return f"{self.overall:.0%} representative of the input so far"


@dataclass(frozen=True, slots=True)
class Shown:
    """The running result and how far to trust it.

    ``completeness`` says for each row of the table which part of its group's input, of that seen so far, it stands
    for; None where rows cannot be told apart by the keys of the flow's operators. ``estimates`` has for each count, sum
    and mean what it will be at the end, row by row (None for a row of which too little is known), or in words why there
    is no estimate. ``left_out``: how many more rows there are, as far as workers say.
    """

    table: pa.Table
    completeness: tuple[float, ...] | None
    representativeness: Representativeness
    seconds: float
    final: bool
    estimates: Mapping[str, tuple[Estimate | None, ...] | str] = field(default_factory=dict)
    left_out: int = 0

    def toPandas(self) -> pd.DataFrame:  # noqa: N802 - as in PySpark
        """The table as a pandas DataFrame."""
        frame: pd.DataFrame = self.table.to_pandas()
        return frame
