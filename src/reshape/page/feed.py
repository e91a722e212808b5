"""What has changed since a browser last heard: sections of a run as JSON texts, made once for all who look."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from reshape.page import documents
from reshape.page.runs import Runs, Watched

# Five updates a second look like motion; more cost CPU time and show nothing more.
UPDATE_S = 0.2
# Lines over minutes need no more than this, and are the longest texts.
HISTORY_S = 2.0


@dataclass(slots=True)
class Heard:
    """What one browser knows: the version of each section, and its newest entry of the timeline."""

    versions: dict[tuple[int, str], int] = field(default_factory=dict)
    timeline: dict[int, int] = field(default_factory=dict)
    generations: dict[int, int] = field(default_factory=dict)
    runs: str = ""


@dataclass(slots=True)
class _Section:
    text: str = "null"
    version: int = 0


class RunFeed:
    """Of one run. Sections are made anew at most every ``UPDATE_S``, and only after something has happened."""

    def __init__(self, run: Watched) -> None:
        self.run = run
        self._lock = threading.Lock()
        self._sections: dict[str, _Section] = {}
        self._made_at = float("-inf")
        self._history_at = float("-inf")
        self._seen = (-1, -1)  # generation and version of the record

    def refresh(self) -> None:
        """Look at the run, unless somebody just did."""
        with self._lock:
            now = time.monotonic()
            if now - self._made_at < UPDATE_S * 0.9:
                return
            self._made_at = now
            self.run.look()
            record = self.run.record
            with record.lock:
                self._put("head", documents.head(self.run, record))
                now_seen = (record.generation, record.version)
                if now_seen == self._seen:
                    return
                self._seen = now_seen
                makers: dict[str, Callable[[Any], Any]] = {
                    "flow": documents.flow,
                    "result": documents.result,
                    "workers": documents.workers,
                    "hot": documents.hot,
                }
                if now - self._history_at >= HISTORY_S or record.ended is not None:
                    self._history_at = now
                    makers["history"] = documents.history
                made = {name: make(record) for name, make in makers.items()}
            for name, section in made.items():
                self._put(name, section)

    def texts(self) -> dict[str, str]:
        """All sections as JSON texts, for who keeps what changed by itself."""
        return {name: section.text for name, section in self._sections.items()}

    def changes(self, number: int, heard: Heard) -> str | None:
        """What a browser does not know yet, as a JSON object; None if it knows everything."""
        parts = []
        record = self.run.record
        if heard.generations.get(number, 0) != record.generation:
            heard.generations[number] = record.generation
            heard.timeline[number] = 0
        for name, section in self._sections.items():
            if heard.versions.get((number, name), 0) < section.version:
                heard.versions[number, name] = section.version
                parts.append(f'"{name}":{section.text}')
        entries = documents.timeline(record, heard.timeline.get(number, 0))
        if entries:
            heard.timeline[number] = entries[-1][0]
            parts.append(f'"timeline":{_json(entries)}')
        return "{" + ",".join(parts) + "}" if parts else None

    def _put(self, name: str, value: Any) -> None:
        text = _json(value)
        section = self._sections.setdefault(name, _Section())
        if section.text != text:
            section.text = text
            section.version += 1


class Feed:
    """All runs, for all browsers."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._feeds: dict[int, RunFeed] = {}
        self._lock = threading.Lock()

    def update(self, wanted: list[int], heard: Heard) -> str | None:
        """The next message for a browser that looks at some runs; None when nothing has changed."""
        parts = []
        listed = _json(
            [
                {"number": each.number, "name": each.run.name, "status": each.run.status, "active": each.run.active}
                for each in self._runs.all()
            ]
        )
        if listed != heard.runs:
            heard.runs = listed
            parts.append(f'"runs":{listed}')
        changed = []
        for number in wanted:
            feed = self._feed(number)
            if feed is not None:
                feed.refresh()
                changes = feed.changes(number, heard)
                if changes is not None:
                    changed.append(f'"{number}":{changes}')
        if changed:
            parts.append('"changes":{' + ",".join(changed) + "}")
        return "{" + ",".join(parts) + "}" if parts else None

    def _feed(self, number: int) -> RunFeed | None:
        with self._lock:
            known = {each.number for each in self._runs.all()}
            self._feeds = {at: feed for at, feed in self._feeds.items() if at in known}
            run = self._runs.get(number)
            if run is not None and number not in self._feeds:
                self._feeds[number] = RunFeed(run)
            return self._feeds.get(number)


def _json(value: Any) -> str:
    # A line break would end a message of server-sent events; JSON has none.
    return json.dumps(value, separators=(",", ":"), default=str)
