"""Types of fields in messages: plain Python types with the range that the codec holds them to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from reshape.control.profile import MOST_WORKERS


@dataclass(frozen=True, slots=True)
class Range:
    """Values from ``least`` to ``most``, both included."""

    least: float
    most: float


# Operators, ports, hosts and workers are counted from 0.
Index = Annotated[int, Range(0, MOST_WORKERS)]
# Rows, bytes, stages and tasks of Spark. A thousand of them add up within eight bytes.
Count = Annotated[int, Range(0, 2**53)]
# A routing version has four bytes in the envelope of rows.
Version = Annotated[int, Range(0, 2**32 - 1)]
# The driver's own hand-overs, which bring state back, have negative numbers.
TransferNumber = Annotated[int, Range(-(2**31), 2**31 - 1)]
# Keys are named by their 64-bit hashes.
KeyHash = Annotated[int, Range(0, 2**64 - 1)]
Bucket = Annotated[int, Range(0, 2**31 - 1)]
Seconds = Annotated[float, Range(0.0, 1e12)]
