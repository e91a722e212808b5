"""Routing tables: immutable, versioned, exact.

A router asks the table for the shares of a row (by key, else by mini-partition, else by owner) and counts
rows per rule; the position of a row in that count decides its worker. Shares are fractions and are
interleaved evenly: 9 of 26 never means nine in a row.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor
from typing import Any

from reshape.control.errors import require

Key = Hashable


@dataclass(frozen=True, slots=True)
class Shares:
    """Which worker gets which fraction of the rows of a rule; the fractions add up to one.

    The rows are dealt out by nested counting: the first worker takes row ``k`` when ``floor((k+1)s)`` exceeds
    ``floor(ks)``, the others divide the rest among themselves in the same way. In any run of ``n`` rows a
    worker's count differs from ``n * share`` by less than the number of other workers, and no cycle has to be stored.
    """

    parts: tuple[tuple[int, Fraction], ...]

    def __post_init__(self) -> None:
        total = Fraction(0)
        for worker, share in self.parts:
            require(share > 0, f"share of worker {worker}", share, "a share is above 0")
            total += share
        require(total == 1, "shares", str(total), "the shares of one rule must add up to 1")
        workers = [worker for worker, _ in self.parts]
        require(len(set(workers)) == len(workers), "shares", workers, "each worker may appear once")

    @classmethod
    def whole(cls, worker: int) -> Shares:
        """Everything to one worker."""
        return cls(((worker, Fraction(1)),))

    @classmethod
    def of(cls, owner: int, given: Mapping[int, Fraction]) -> Shares:
        """The given fractions to others, the rest to the owner; workers with nothing are left out."""
        for worker, share in given.items():
            require(share >= 0, f"share of worker {worker}", str(share), "a share is not negative")
        parts = [(worker, share) for worker, share in given.items() if share > 0]
        rest = 1 - sum((share for _, share in parts), Fraction(0))
        require(rest >= 0, "shares", str(1 - rest), "shares given away cannot exceed 1")
        if rest > 0:
            parts.append((owner, rest))
        return cls(tuple(parts))

    def share_of(self, worker: int) -> Fraction:
        """The fraction that a worker gets, 0 if it is not part of the rule."""
        return next((share for part, share in self.parts if part == worker), Fraction(0))

    @property
    def workers(self) -> tuple[int, ...]:
        return tuple(worker for worker, _ in self.parts)

    def deal(self, start: int, rows: int) -> list[tuple[int, int]]:
        """How many of the rows at positions ``start .. start + rows - 1`` each worker gets."""
        dealt = []
        for worker, share in self._levels():
            before = floor(start * share)
            taken = floor((start + rows) * share) - before
            dealt.append((worker, taken))
            start -= before
            rows -= taken
        return dealt

    def _levels(self) -> Iterator[tuple[int, Fraction]]:
        """Each worker with its share of what the workers before it left over; the last one takes all of it."""
        left = Fraction(1)
        for worker, share in self.parts:
            yield worker, share / left
            left -= share


@dataclass(frozen=True, slots=True)
class RoutingTable:
    """One version of the partitioning logic. A rule for a key beats one for its mini-partition beats one for its
    owner; without any, a row goes to its owner. The mappings are never changed after construction.

    ``two_choices`` is partial key grouping: each row goes to the less loaded of its key's two hash choices.
    """

    version: int = 0
    owners: Mapping[int, Shares] = field(default_factory=dict)
    keys: Mapping[Key, Shares] = field(default_factory=dict)
    buckets: Mapping[int, Shares] = field(default_factory=dict)
    two_choices: bool = False

    def shares(self, key: Key, bucket: int, owner: int) -> Shares | None:
        """The rule for a row, or None when it simply goes to its owner."""
        if self.keys:
            rule = self.keys.get(key)
            if rule is not None:
                return rule
        if self.buckets:
            rule = self.buckets.get(bucket)
            if rule is not None:
                return rule
        return self.owners.get(owner)


class RoutingDraft:
    """The next routing table while one step of the brain works on it.

    However many rules a step changes, the routers get one new version; versions only grow.
    """

    def __init__(self) -> None:
        self.current = RoutingTable()
        self._owners: dict[int, Shares] = {}
        self._keys: dict[Key, Shares] = {}
        self._buckets: dict[int, Shares] = {}
        self._two_choices = False
        self._changed = False

    def set_owner(self, owner: int, shares: Shares | None) -> bool:
        return self._put(self._owners, owner, shares)

    def set_keys(self, keys: Iterable[Key], shares: Shares | None) -> bool:
        changed = False
        for key in keys:
            changed |= self._put(self._keys, key, shares)
        return changed

    def set_bucket(self, bucket: int, shares: Shares | None) -> bool:
        return self._put(self._buckets, bucket, shares)

    def use_two_choices(self) -> None:
        self._changed |= not self._two_choices
        self._two_choices = True

    @property
    def next_version(self) -> int:
        return self.current.version + 1

    def publish(self) -> RoutingTable | None:
        """The new table if anything changed since the last one."""
        if not self._changed:
            return None
        self._changed = False
        self.current = RoutingTable(
            self.next_version, dict(self._owners), dict(self._keys), dict(self._buckets), self._two_choices
        )
        return self.current

    def _put(self, rules: dict[Any, Shares], scope: Hashable, shares: Shares | None) -> bool:
        """Set or remove a rule; True if that changes the table."""
        changed = rules.get(scope) != shares
        if shares is None:
            rules.pop(scope, None)
        else:
            rules[scope] = shares
        self._changed |= changed
        return changed
