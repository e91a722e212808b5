"""The senders of an operator, as one: which worker gets which rows."""

from __future__ import annotations

from fractions import Fraction

from reshape.control.routing import RoutingTable, Shares
from reshape.sim.source import Group
from reshape.sim.worker import Chunk

# Knuth's multiplicative hash: any odd constant near 2^32 / golden ratio spreads small codes.
_SPREAD = 2654435761


Levels = list[tuple[int, int, int]]  # worker, and its share of what those before it left, as two whole numbers


def whole_levels(shares: Shares) -> Levels:
    """The nested counting of :meth:`Shares.deal`, prepared once: fractions are slow and a rule is used often."""
    left = Fraction(1)
    levels = []
    for worker, share in shares.parts:
        level = share / left
        levels.append((worker, level.numerator, level.denominator))
        left -= share
    return levels


class SimulatedRouter:
    """Applies one routing table at a time; versions only grow.

    A key's owner is ``code mod workers``; its mini-partition ``code mod (workers * buckets_per_worker)``, so
    that a mini-partition has one owner. Rows of a shared key are dealt out by the key's own position: a group
    comes sorted by key, and with one position per rule a rare key could meet the same worker every time.
    """

    def __init__(self, workers: int, buckets_per_worker: int, table: RoutingTable) -> None:
        self.workers = workers
        self.table = table
        self.routed = [0] * workers  # by owner, before redirection
        self.received = [0] * workers  # by worker, after it
        self.since_report: dict[int, int] = {}  # rows per key
        self._buckets = workers * buckets_per_worker
        self._positions: dict[int, int] = {}
        self._levels: dict[int, Levels] = {}  # per key, for the table in use

    def use(self, table: RoutingTable) -> bool:
        """Use a table from the next group on, unless a later one is in use already."""
        if table.version <= self.table.version:
            return False
        self.table = table
        self._levels = {}
        return True

    def bucket_of(self, key: int) -> int:
        return key % self._buckets

    def second_choice(self, key: int) -> int:
        """The other worker of a key under two choices: a second hash, never the owner."""
        if self.workers == 1:
            return 0
        shift = ((key + 1) * _SPREAD >> 9) % (self.workers - 1) + 1
        return (key + shift) % self.workers

    def route(self, group: Group) -> dict[int, Chunk]:
        """Divide a group into one chunk per worker, and count."""
        workers, routed, received, recent = self.workers, self.routed, self.received, self.since_report
        table = self.table
        plain = not (table.owners or table.keys or table.buckets or table.two_choices)
        bound: dict[int, list[tuple[int, int]]] = {}
        for key, rows in group:
            owner = key % workers
            routed[owner] += rows
            recent[key] = recent.get(key, 0) + rows
            for worker, part in ((owner, rows),) if plain else self._divide(key, owner, rows):
                if part:
                    received[worker] += part
                    if worker in bound:
                        bound[worker].append((key, part))
                    else:
                        bound[worker] = [(key, part)]
        return {worker: Chunk(items) for worker, items in bound.items()}

    def _divide(self, key: int, owner: int, rows: int) -> list[tuple[int, int]]:
        if self.table.two_choices:
            return self._level(key, owner, rows)
        levels = self._levels.get(key)
        if levels is None:
            shares = self.table.shares(key, self.bucket_of(key), owner)
            levels = self._levels[key] = whole_levels(shares) if shares is not None else [(owner, 1, 1)]
        if len(levels) == 1:
            return [(levels[0][0], rows)]
        start = self._positions.get(key, 0)
        self._positions[key] = start + rows
        dealt = []
        for worker, part, whole in levels:
            before = start * part // whole
            taken = (start + rows) * part // whole - before
            dealt.append((worker, taken))
            start -= before
            rows -= taken
        return dealt

    def _level(self, key: int, owner: int, rows: int) -> list[tuple[int, int]]:
        """What sending row by row to the less loaded of the two comes to: level them, then alternate."""
        other = self.second_choice(key)
        if other == owner:
            return [(owner, rows)]
        level = (rows + self.received[other] - self.received[owner] + 1) // 2
        first = min(rows, max(0, level))
        return [(owner, first), (other, rows - first)]
