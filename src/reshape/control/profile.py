"""What the brain knows about the operator whose load it moves."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from reshape.control.errors import require

# A worker's number has two bytes beside the rows that are sent to it.
MOST_WORKERS = 65_535


class Split(Enum):
    """How a partition is divided between its owner and a helper (§3.1); the plan chooses."""

    BY_RECORDS = "split by records"
    BY_KEYS = "split by keys"


class StateKind(Enum):
    """Mutability of the operator's keyed state in the phase at hand (§5.1)."""

    IMMUTABLE = "immutable"
    MUTABLE = "mutable"


class Partitioning(Enum):
    """How rows find their owner."""

    HASH = "hash"
    RANGE = "range"


@dataclass(frozen=True, slots=True)
class OperatorProfile:
    """One skew-prone operator, as far as load transfer is concerned.

    ``combinable`` says that two partial states of one key can be combined at a small cost (count, sum, join
    output); a median or a sorted run can only be merged by keeping all of its rows.
    """

    name: str
    workers: int
    split: Split = Split.BY_RECORDS
    state: StateKind = StateKind.IMMUTABLE
    partitioning: Partitioning = Partitioning.HASH
    combinable: bool = True

    def __post_init__(self) -> None:
        require(bool(self.name), "name", self.name, "an operator needs a name")
        require(self.workers >= 1, "workers", self.workers, "an operator needs at least one worker")

    @property
    def order_matters(self) -> bool:
        """Split by keys is chosen exactly when an operator downstream needs the order of its input (§3.1)."""
        return self.split is Split.BY_KEYS
