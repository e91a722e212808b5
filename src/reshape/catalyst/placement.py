"""Where the skew-prone operators of a query run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Placement:
    """One operator of Spark's optimized plan. ``reason`` says why it stays with Spark; empty where it does not."""

    operator: str
    where: Literal["reshape", "spark"]
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.operator}: {self.where}" + (f", because {self.reason}" if self.reason else "")
