"""What a router has seen of keys and mini-partitions since it was last asked: a bounded summary, not a histogram."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from reshape.exchange.fields import Bucket, Count, Index, KeyHash
from reshape.kernels.hashing import mini_partitions

# Rows of a batch that are looked at. A key with a hundredth of the rows has forty of them, and sorting costs 0.1 ms.
SAMPLE_ROWS = 4_096
# Keys kept between two reports, per router.
MOST_KEYS = 512


@dataclass(frozen=True, slots=True)
class RouterCounts:
    """What a router has sent, since it began: rows per owner before redirection, rows per worker after it.

    ``keys`` (by owner, then by hash) and ``buckets`` are what it has counted since its report before.
    """

    routed: tuple[Count, ...]
    sent: tuple[Count, ...]
    keys: Mapping[Index, Mapping[KeyHash, Count]] = field(default_factory=dict)
    buckets: Mapping[Bucket, Count] = field(default_factory=dict)

    def __add__(self, other: RouterCounts) -> RouterCounts:
        """Both as one; keys and mini-partitions of the first."""
        routed = tuple(first + second for first, second in zip(self.routed, other.routed, strict=True))
        sent = tuple(first + second for first, second in zip(self.sent, other.sent, strict=True))
        return RouterCounts(routed, sent, self.keys, self.buckets)

    def after(self, before: RouterCounts) -> RouterCounts:
        """These counts with the heaviest keys and all mini-partitions of an earlier report that was never sent."""
        keys = Counter({(owner, key): rows for owner, of in self.keys.items() for key, rows in of.items()})
        for owner, of in before.keys.items():
            for key, rows in of.items():
                keys[owner, key] += rows
        by_owner: dict[int, dict[int, int]] = {}
        for (owner, key), rows in keys.most_common(MOST_KEYS):
            by_owner.setdefault(owner, {})[key] = rows
        buckets = Counter(self.buckets)
        buckets.update(before.buckets)
        return RouterCounts(self.routed, self.sent, by_owner, dict(buckets))


# A router that has sent nothing yet, because it waits for the bounds of a sort.
NO_COUNTS = RouterCounts((), ())


class KeyTally:
    """Rows per heavy key and, if wanted, per mini-partition. Asked by one thread while another one counts."""

    def __init__(self, workers: int, per_worker: int, *, buckets: bool = False) -> None:
        self._workers = workers
        self._per_worker = per_worker
        self._keys: dict[int, tuple[int, int]] = {}  # hash -> owner, rows
        self._buckets = np.zeros(workers * per_worker, dtype=np.int64) if buckets else None

    def count(self, owner: npt.NDArray[np.uint16], hashes: npt.NDArray[np.uint64]) -> None:
        if self._buckets is not None:
            numbers = mini_partitions(hashes, self._workers, self._per_worker)
            self._buckets += np.bincount(numbers, minlength=len(self._buckets))
        step = max(1, len(hashes) // SAMPLE_ROWS)
        distinct, first, rows = np.unique(hashes[::step], return_index=True, return_counts=True)
        most = np.argsort(-rows, kind="stable")[:MOST_KEYS]
        owners = owner[::step][first[most]]
        keys = dict(self._keys)
        for key, of, count in zip(distinct[most].tolist(), owners.tolist(), rows[most].tolist(), strict=True):
            keys[key] = (of, keys.get(key, (of, 0))[1] + count * step)
        if len(keys) > MOST_KEYS:
            keys = dict(sorted(keys.items(), key=lambda item: -item[1][1])[:MOST_KEYS])
        self._keys = keys

    def take(self) -> tuple[dict[int, dict[int, int]], dict[int, int]]:
        """Rows per heavy key of each owner, and rows per mini-partition, since this was last called."""
        keys, self._keys = self._keys, {}
        by_owner: dict[int, dict[int, int]] = {}
        for key, (owner, rows) in keys.items():
            by_owner.setdefault(owner, {})[key] = rows
        if self._buckets is None:
            return by_owner, {}
        counts, self._buckets = self._buckets, np.zeros(len(self._buckets), dtype=np.int64)
        present = np.flatnonzero(counts)
        return by_owner, dict(zip(present.tolist(), counts[present].tolist(), strict=True))
