"""The synthetic table of W4 (§7.8): 42 keys, 80 million rows, a distribution that changes after a quarter."""

from __future__ import annotations

KEYS = 42
SKEWED_KEY = 0
RISING_KEY = 10


def changing_distribution() -> tuple[dict[int, int], dict[int, int]]:
    """Rows per key before and after the change."""
    before = _with_rest({SKEWED_KEY: 16_000_000}, 4_000_000)
    after = _with_rest({SKEWED_KEY: 36_000_000, RISING_KEY: 12_000_000}, 12_000_000)
    return before, after


def _with_rest(given: dict[int, int], rest: int) -> dict[int, int]:
    """The given keys, and the rest evenly over all others."""
    others = [key for key in range(KEYS) if key not in given]
    return given | {key: rest * (i + 1) // len(others) - rest * i // len(others) for i, key in enumerate(others)}
