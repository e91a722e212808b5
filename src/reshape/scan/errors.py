"""What the room of scans says when it cannot go on. All are picklable: they travel from a task to the driver."""

from __future__ import annotations

from reshape.errors import ReshapeError


class NotReadable(ReshapeError):
    """A DataFrame that hosts cannot read by themselves with Spark's result; `reason` is shown to users."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class SplitChanged(ReshapeError):
    """A file is not the one that was planned: another size or another time of its last change, or gone."""

    def __init__(self, path: str, planned: str, got: str) -> None:
        super().__init__(path, planned, got)
        self.path = path
        self.planned = planned
        self.got = got

    def __str__(self) -> str:
        return (
            f"{self.path} changed after the scan was planned: planned {self.planned}, now {self.got}. "
            "Make the DataFrame anew and start the flow again."
        )


class SplitUnreadable(ReshapeError):
    """A file that Arrow cannot read, or not as Spark would; Spark may still be able to."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path} cannot be read outside of Spark: {self.reason}"
