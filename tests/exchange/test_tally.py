"""What a router counts of keys and mini-partitions."""

from __future__ import annotations

import numpy as np
import pytest

from reshape.exchange.tally import MOST_KEYS, SAMPLE_ROWS, KeyTally
from reshape.kernels.hashing import mini_partitions, owners

WORKERS, PER_WORKER = 5, 16


def hashes_of(rng: np.random.Generator, distinct: int) -> np.ndarray:
    return rng.integers(0, 2**64, distinct, dtype=np.uint64)


def test_small_batches_are_counted_exactly() -> None:
    rng = np.random.default_rng(1)
    pool = hashes_of(rng, 40)
    rows = rng.choice(pool, 3_000)
    tally = KeyTally(WORKERS, PER_WORKER, buckets=True)
    for part in np.split(rows, 6):
        tally.count(owners(part, WORKERS), part)
    keys, buckets = tally.take()
    found, counts = np.unique(rows, return_counts=True)
    wanted: dict[int, dict[int, int]] = {}
    for key, owner, count in zip(found.tolist(), owners(found, WORKERS).tolist(), counts.tolist(), strict=True):
        wanted.setdefault(owner, {})[key] = count
    assert keys == wanted
    numbers, counts = np.unique(mini_partitions(rows, WORKERS, PER_WORKER), return_counts=True)
    assert buckets == dict(zip(numbers.tolist(), counts.tolist(), strict=True))
    assert all(number % WORKERS == int(owners(rows[:1], WORKERS)[0]) for number in mini_partitions(rows[:1], 5, 16))
    assert tally.take() == ({}, {}), "what was taken is counted anew"


def test_without_buckets_only_keys_are_counted() -> None:
    rows = hashes_of(np.random.default_rng(2), 100)
    tally = KeyTally(WORKERS, PER_WORKER)
    tally.count(owners(rows, WORKERS), rows)
    keys, buckets = tally.take()
    assert sum(len(mine) for mine in keys.values()) == 100
    assert buckets == {}


def test_a_large_batch_is_sampled_and_its_heavy_keys_are_found() -> None:
    rng = np.random.default_rng(3)
    heavy = hashes_of(rng, 3)
    rows = hashes_of(rng, 20 * SAMPLE_ROWS)
    places = rng.permutation(len(rows))
    for place, key in enumerate(heavy):
        rows[places[place * 8_000 : (place + 1) * 8_000]] = key
    tally = KeyTally(WORKERS, PER_WORKER)
    tally.count(owners(rows, WORKERS), rows)
    keys, _ = tally.take()
    flat = {key: count for mine in keys.values() for key, count in mine.items()}
    assert len(flat) <= MOST_KEYS
    for key in heavy.tolist():
        assert flat[key] == pytest.approx(8_000, rel=0.2)
        assert key in keys[int(owners(np.array([key], dtype=np.uint64), WORKERS)[0])]


def test_many_keys_stay_bounded_and_the_heavy_one_stays() -> None:
    rng = np.random.default_rng(4)
    heavy = hashes_of(rng, 1)
    tally = KeyTally(WORKERS, PER_WORKER)
    for _ in range(20):
        rows = np.concatenate([hashes_of(rng, 900), np.repeat(heavy, 100)])
        tally.count(owners(rows, WORKERS), rows)
    keys, _ = tally.take()
    flat = {key: count for mine in keys.values() for key, count in mine.items()}
    assert len(flat) <= MOST_KEYS
    assert flat[int(heavy[0])] == 2_000
