"""Losses and stops that tasks and driver tell each other of while a flow runs on Spark."""

from __future__ import annotations

from reshape.errors import FlowFailed, ReshapeError


class TaskLost(FlowFailed):
    """A task was lost with what it had done; the flow itself has no fault."""


class Aborted(FlowFailed):
    """A task was told to stop because of a failure elsewhere, which the driver knows."""


class DriverLost(ReshapeError):
    """A task cannot reach the driver any more."""

    def __init__(self, location: str, seconds: float, cause: str) -> None:
        super().__init__(location, seconds, cause)
        self.location = location
        self.seconds = seconds
        self.cause = cause

    def __str__(self) -> str:
        return (
            f"no answer from the driver at {self.location} for {self.seconds:.0f} s ({self.cause}); the task gives up"
        )


class MessageRefused(ReshapeError):
    """A message between driver and tasks that is none of ours: of an unknown kind, or with a field that cannot be."""

    def __init__(self, where: str, wanted: str, got: str) -> None:
        super().__init__(where, wanted, got)
        self.where = where
        self.wanted = wanted
        self.got = got

    def inside(self, record: str) -> MessageRefused:
        """The same, told from one record further out."""
        where = record if self.where == "a field" else f"{record} > {self.where}"
        return MessageRefused(where, self.wanted, self.got)

    def __str__(self) -> str:
        return f"a message was refused: {self.where} must be {self.wanted}, got {self.got}"
