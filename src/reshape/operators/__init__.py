"""The skew-prone operators: Arrow in, Arrow out, no I/O. `spec` says what a plan knows of them, `base` what they do.

An operator is one file with its spec and its logic. Files are found by themselves, so no list has to be kept.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reshape.operators.spec import Spec


def specs() -> tuple[type[Spec], ...]:
    """The specs of all operators.

    Imported late: whoever needs one operator is spared the code of the others, half of a source task's start-up time.
    """
    from reshape.operators.spec import Spec

    found: list[type[Spec]] = []
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        made = vars(importlib.import_module(module.name)).values()
        found += [one for one in made if isinstance(one, type) and issubclass(one, Spec) and _is_of(one, module.name)]
    return tuple(found)


def _is_of(spec: type[Spec], module: str) -> bool:
    """Whether it is defined there, not imported, and can be made."""
    return spec.__module__ == module and not spec.__abstractmethods__
