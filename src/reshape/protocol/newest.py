"""Counts that are still unsent when newer ones come: the newer replace them, but for what they alone know."""

from __future__ import annotations

from dataclasses import replace

from reshape.protocol.reports import Progress, RouterCounted

# What a task notes from time to time: a host, or a source.
Counted = Progress | RouterCounted


def newest(before: Counted | None, after: Counted) -> Counted:
    """The later counts of a task, with what is told once only: keys that its routers saw, and what is to be shown."""
    match before, after:
        case Progress(), Progress():
            return newest_progress(before, after)
        case RouterCounted(), RouterCounted():
            return replace(after, counts=after.counts.after(before.counts))
    return after


def newest_progress(before: Progress | None, after: Progress) -> Progress:
    """The same of a host."""
    if before is None:
        return after
    routers = {
        sender: counts.after(before.routers[sender]) if sender in before.routers else counts
        for sender, counts in after.routers.items()
    }
    return replace(after, routers=routers, previews=before.previews if after.previews is None else after.previews)
