"""The skew-prone operators: Arrow in, Arrow out, no I/O. `spec` says what a plan knows of them, `base` what they do.

An operator is one file with its spec and its logic, a place in `specs()`, and a method of `reshape.flows.Flow`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reshape.operators.spec import Spec


def specs() -> tuple[type[Spec], ...]:
    """The specs of all operators.

    Imported late: whoever needs one operator is spared the code of the others, half of a source task's start-up time.
    """
    from reshape.operators.group_by import GroupBySpec
    from reshape.operators.group_map import GroupMapSpec
    from reshape.operators.hash_join import JoinSpec
    from reshape.operators.relay import RelaySpec
    from reshape.operators.sort import SortSpec
    from reshape.operators.window import WindowSpec

    return GroupBySpec, GroupMapSpec, JoinSpec, RelaySpec, SortSpec, WindowSpec
