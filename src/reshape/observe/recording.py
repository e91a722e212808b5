"""Who hears what happens in a run: a file of JSON lines, the record that the page shows, or both."""

from __future__ import annotations

from typing import Any, Protocol


class Recorder(Protocol):
    """Hears of events, from any thread."""

    def write(self, kind: str, seconds: float, **facts: Any) -> None:
        """What, when (seconds since the hosts were ready), and the facts."""

    def close(self) -> None:
        """Nothing more will come."""


class Recorders:
    """Several of them as one. Nobody may change the facts: all get the same."""

    def __init__(self, *recorders: Recorder) -> None:
        self._recorders = recorders

    def write(self, kind: str, seconds: float, **facts: Any) -> None:
        for recorder in self._recorders:
            recorder.write(kind, seconds, **facts)

    def close(self) -> None:
        for recorder in self._recorders:
            recorder.close()
