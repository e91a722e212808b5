"""Who keeps each input of a flow's operators balanced: the brain of its strategy, and what that has to know."""

from __future__ import annotations

from reshape.control.brain import Brain
from reshape.control.errors import StrategyRefused
from reshape.control.profile import OperatorProfile, Partitioning, StateKind
from reshape.control.strategies import build
from reshape.plan.physical import PhysicalOperator, PhysicalPlan


def profile(plan: PhysicalPlan, operator: PhysicalOperator, port: int) -> OperatorProfile:
    """What a brain has to know about an input."""
    known = operator.ports[port]
    return OperatorProfile(
        f"{operator.label}, input {port}",
        plan.workers,
        plan.split(operator, port).split,
        StateKind.MUTABLE if known.mutable else StateKind.IMMUTABLE,
        Partitioning.HASH if known.ordering is None else Partitioning.RANGE,
        operator.logic.combinable,
    )


def brain_of(plan: PhysicalPlan, operator: PhysicalOperator, port: int) -> Brain:
    """The brain that an input's strategy names."""
    mitigation = operator.mitigation
    strategy = mitigation.strategy if plan.workers > 1 else "none"
    return build(strategy, profile(plan, operator, port), mitigation.settings)


def check_strategies(plan: PhysicalPlan) -> None:
    """Raise what a strategy says to an operator that it cannot serve, before anything runs."""
    for operator in plan.operators:
        for index, port in enumerate(operator.ports):
            brain_of(plan, operator, index)
            if operator.mitigation.strategy == "pkg" and port.after is not None:
                why = f"cannot be used for {operator.label}: a key's second worker would have no state for it"
                raise StrategyRefused("strategy", "pkg", f"{why}; use reshape, or give pkg to a group-by by tuned()")
