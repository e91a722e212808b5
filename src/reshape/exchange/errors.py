"""What can go wrong between tasks."""

from __future__ import annotations

from reshape.errors import ReshapeError


class ExchangeError(ReshapeError):
    """Rows could not be sent, kept or received."""


class PeerLost(ExchangeError):
    """The process at the other end of a stream is gone, or has stopped listening."""

    def __init__(self, peer: str, cause: str) -> None:
        super().__init__(peer, cause)
        self.peer = peer
        self.cause = cause

    def __str__(self) -> str:
        return f"{self.peer} is gone: {self.cause}"


class HostClosed(ExchangeError):
    """The host that rows were for has failed, which it tells by itself, or is closing."""


class WireError(ExchangeError):
    """Bytes that are not what the protocol says."""


class SpillError(ExchangeError):
    """Waiting rows could not be written to disk or read back."""


class PortsTaken(ExchangeError):
    """No listener can be opened at an address, or on any of its ports."""

    def __init__(self, address: str, first: int, last: int, cause: str) -> None:
        super().__init__(address, first, last, cause)
        self.address = address
        self.first = first
        self.last = last
        self.cause = cause

    def __str__(self) -> str:
        ports = "any port" if not self.last else f"a port from {self.first} to {self.last}"
        return (
            f"cannot listen at {self.address} on {ports}: {self.cause}. Set spark.reshape.bindAddress to an address of "
            "this machine, or spark.reshape.ports to more ports that are free"
        )


class BackPressureTimeout(ExchangeError):
    """A queue stayed full for longer than the time limit."""


class CallError(ReshapeError):
    """A call to a listener, or a note for it, had no good end. Streams tell the same as an :class:`ExchangeError`."""


class Unreachable(CallError):
    """Nobody who knows the secret listens there any more, or the connection broke."""


class NoAnswer(CallError):
    """Somebody listens there, but did not answer in time."""


class NotAdmitted(CallError):
    """The listener does not know the secret."""


class CallFailed(CallError):
    """The listener's own word on why it cannot do that."""
