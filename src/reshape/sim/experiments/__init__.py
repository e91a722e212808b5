"""The paper's experiments on the simulator, one module per figure."""

from __future__ import annotations

from typing import Any

from reshape.control.errors import require
from reshape.sim.experiments.changing_distribution import CHANGING_DISTRIBUTION
from reshape.sim.experiments.control_latency import CONTROL_LATENCY
from reshape.sim.experiments.dynamic_tau import DYNAMIC_TAU
from reshape.sim.experiments.experiment import Experiment
from reshape.sim.experiments.first_phase import FIRST_PHASE
from reshape.sim.experiments.heavy_hitter import HEAVY_HITTER
from reshape.sim.experiments.multiple_helpers import MULTIPLE_HELPERS
from reshape.sim.experiments.ratio import RATIO
from reshape.sim.experiments.skew_levels import SKEW_LEVELS
from reshape.sim.experiments.sort import SORT

EXPERIMENTS: dict[str, Experiment[Any]] = {
    experiment.name: experiment
    for experiment in (
        RATIO,
        FIRST_PHASE,
        HEAVY_HITTER,
        CONTROL_LATENCY,
        DYNAMIC_TAU,
        SKEW_LEVELS,
        CHANGING_DISTRIBUTION,
        SORT,
        MULTIPLE_HELPERS,
    )
}


def find(name: str) -> Experiment[Any]:
    """The experiment of this name."""
    require(name in EXPERIMENTS, "experiment", name, f"one of {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]
