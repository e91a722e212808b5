"""How each input of a flow's operators is kept balanced: by which strategy, and how a partition may be split (§3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reshape.control.brain import Brain
from reshape.control.errors import StrategyRefused
from reshape.control.profile import OperatorProfile, Partitioning, Split, StateKind
from reshape.control.strategies import build

if TYPE_CHECKING:
    from reshape.plan.physical import PhysicalOperator, PhysicalPlan


@dataclass(frozen=True, slots=True)
class SplitChoice:
    """How rows of one partition may be divided, and why."""

    split: Split
    reason: str


def choose_split(plan: PhysicalPlan, operator: PhysicalOperator, port: int) -> SplitChoice:
    """By records, unless something downstream needs the order of its input."""
    if not _passes_on(operator, port):
        return SplitChoice(Split.BY_RECORDS, "the operator gives its rows at the end, in an order of its own")
    below: PhysicalOperator | None = operator
    while below is not None:
        if below.ordered is not None:
            return SplitChoice(Split.BY_KEYS, f"{below.ordered} needs the rows of a key in their order")
        if below.target is None:
            break
        number, at = below.target
        below = plan.operators[number]
        if not _passes_on(below, at):
            break
    return SplitChoice(Split.BY_RECORDS, "nothing downstream needs the order of rows")


def _passes_on(operator: PhysicalOperator, port: int) -> bool:
    """Do rows of this input leave the operator while they come in?"""
    return not operator.ports[port].mutable


def profile(plan: PhysicalPlan, operator: PhysicalOperator, port: int) -> OperatorProfile:
    """What a brain has to know about an input."""
    # Imported late: senders need this module but none of the operators' code, half of their start-up time.
    from reshape.operators.group_by import GroupBySpec
    from reshape.operators.sort import SortSpec

    known = operator.ports[port]
    logic = operator.logic
    combinable = not isinstance(logic, SortSpec)
    if isinstance(logic, GroupBySpec):
        combinable = logic.grouping().algebraic
    return OperatorProfile(
        f"{operator.label}, input {port}",
        plan.workers,
        choose_split(plan, operator, port).split,
        StateKind.MUTABLE if known.mutable else StateKind.IMMUTABLE,
        Partitioning.HASH if known.ordering is None else Partitioning.RANGE,
        combinable,
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
