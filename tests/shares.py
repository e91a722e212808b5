"""Shares of a rule row by row: what counts of rows and vectors of workers have to agree with."""

from __future__ import annotations

from fractions import Fraction
from math import floor

from reshape.control.routing import Shares


def worker_at(shares: Shares, position: int) -> int:
    """The worker of the row at this position of the rule's count: each one takes its part of what those before it
    left, the last one all of it."""
    left = Fraction(1)
    for worker, share in shares.parts[:-1]:
        taken = floor(position * share / left)
        if floor((position + 1) * share / left) > taken:
            return worker
        position -= taken
        left -= share
    return shares.parts[-1][0]
