"""What can go wrong while a flow runs on Spark."""

from __future__ import annotations

from reshape.errors import ReshapeError


class FlowFailed(ReshapeError):
    """A flow ended with an error; says where it began."""

    def __init__(self, where: str, cause: str) -> None:
        super().__init__(where, cause)
        self.where = where
        self.cause = cause

    def __str__(self) -> str:
        return f"the flow failed in {self.where}: {self.cause}"


class TaskLost(FlowFailed):
    """A task was lost with what it had done; the flow itself has no fault."""


class Aborted(FlowFailed):
    """A task was told to stop because of a failure elsewhere, which the driver knows."""


class FlowCancelled(ReshapeError):
    """A flow was stopped on request."""


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


class TooFewSlots(ReshapeError):
    """Hosts and sources cannot run at the same time."""

    def __init__(self, slots: int, hosts: int, advice: str) -> None:
        super().__init__(slots, hosts, advice)
        self.slots = slots
        self.hosts = hosts
        self.advice = advice

    def __str__(self) -> str:
        return (
            f"the session has {self.slots} task slots; this flow needs {self.hosts} for its hosts and one more at "
            f"least for its sources at the same time. {self.advice}"
        )


class UnsuitableSession(ReshapeError):
    """A setting of the session rules flows out."""


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
