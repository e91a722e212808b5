"""What can go wrong between tasks."""

from __future__ import annotations

from reshape.errors import ReshapeError


class ExchangeError(ReshapeError):
    """Rows could not be sent, kept or received."""


class WireError(ExchangeError):
    """Bytes that are not what the protocol says."""


class SpillError(ExchangeError):
    """Waiting rows could not be written to disk or read back."""


class BackPressureTimeout(ExchangeError):
    """A queue stayed full for longer than the time limit."""
