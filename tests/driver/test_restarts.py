"""Actions without an exchange are run again when a part of the cluster was lost, and for no other reason."""

from __future__ import annotations

from typing import Any, cast

import pytest

from reshape.driver.restarts import TRIES, run_action

LOST = "Could not recover from a failed barrier ResultStage. Most recent failure reason: Stage failed because of a loss"


class Fails:
    """A DataFrame whose first actions fail, and the attempts at it."""

    def __init__(self, *errors: str, lost: bool = True) -> None:
        self.errors = list(errors)
        self.lost = lost
        self.causes: list[str] = []

    def hosts_failed(self, cause: str) -> bool:
        self.causes.append(cause)
        return self.lost

    def count(self) -> int:
        if self.errors:
            raise RuntimeError(self.errors.pop(0))
        return 7


def run(fails: Fails) -> int:
    return run_action(cast(Any, fails), cast(Any, fails), lambda df: df.count())


def test_a_loss_is_tried_again() -> None:
    fails = Fails(LOST, LOST)
    assert run(fails) == 7
    assert fails.causes == [LOST, LOST]


def test_losses_end() -> None:
    fails = Fails(*[LOST] * 10)
    with pytest.raises(RuntimeError, match="a loss"):
        run(fails)
    assert len(fails.causes) == TRIES


@pytest.mark.parametrize(
    ("fails", "asked"),
    [(Fails("Job 3 cancelled part of cancelled job group mine"), 0), (Fails(LOST, lost=False), 1)],
    ids=["cancelled", "an error of the flow"],
)
def test_nothing_else_is(fails: Fails, asked: int) -> None:
    with pytest.raises(RuntimeError):
        run(fails)
    assert len(fails.causes) == asked
