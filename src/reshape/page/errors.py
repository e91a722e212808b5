"""What can go wrong with the page."""

from __future__ import annotations

from reshape.errors import ReshapeError


class PageUnavailable(ReshapeError):
    """The page cannot be served here; the message says why, and what to do."""


class LogUnreadable(ReshapeError):
    """A file cannot be replayed: it is no event log, or holds nothing to show."""
