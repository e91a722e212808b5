"""Why an operator stays with Spark. Never seen by users as an error: it becomes a line of `explain`."""

from __future__ import annotations

import logging

from reshape.errors import ReshapeError

LOG = logging.getLogger(__name__)


class LeftToSpark(ReshapeError):
    """An operator that hosts cannot run, or not with exactly Spark's answer."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


def reason_of(error: Exception, what: str) -> str:
    """Why Spark runs ``what``, in one line. An error that nobody raised on purpose is a fault of ours: it is logged."""
    if not isinstance(error, ReshapeError):
        LOG.error("%s stays with Spark because planning it failed; please report this", what, exc_info=error)
        return f"planning it failed: {_first_line(error)}"
    return _first_line(error)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
