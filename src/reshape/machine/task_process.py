"""What every Python process of a task does once, before its first rows. Spark keeps these processes for later tasks."""

from __future__ import annotations

import gc
from functools import cache

import numpy as np


@cache
def prepare() -> None:
    _keep_freed_memory()
    # The imports have left some hundred thousand objects that stay. Looking through them at every collection took 7 %
    # of the time of a task that moves rows.
    gc.freeze()


def _keep_freed_memory() -> None:
    """Let this process reuse the memory of temporaries; page faults would take a quarter of a router's time.

    glibc gives the memory of large arrays back to the system as soon as they are freed. Freeing a larger one, that was
    never touched, raises both of its thresholds for good (mallopt(3), M_MMAP_THRESHOLD).
    """
    np.empty(31 * 1024 * 1024, dtype=np.uint8)
