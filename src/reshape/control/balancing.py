"""How the inputs of one operator are kept balanced: what travels from a flow's settings to its brains."""

from __future__ import annotations

from dataclasses import dataclass

from reshape.control.settings import StrategySettings

# A brain looks at its workers ten times a second: it reacts within a blink, for less than a hundredth of the time.
REPORT_S = 0.1


@dataclass(frozen=True, slots=True)
class Balancing:
    """``settings`` None: those that the strategy is known for. ``delay_s`` makes control messages slow (§7.5)."""

    strategy: str = "reshape"
    settings: StrategySettings | None = None
    delay_s: float = 0.0
