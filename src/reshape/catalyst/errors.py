"""Why an operator stays with Spark. Never seen by users as an error: it becomes a line of `explain`."""

from __future__ import annotations

from reshape.errors import ReshapeError


class LeftToSpark(ReshapeError):
    """An operator that hosts cannot run, or not with exactly Spark's answer."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


def reason_of(error: Exception) -> str:
    """What an error says, in one line."""
    text = error.reason if isinstance(error, LeftToSpark) else str(error)
    return (text.strip().splitlines() or [type(error).__name__])[0]
