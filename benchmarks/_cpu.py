"""CPU time of this process and all that descend from it: on a busy machine a better measure than the clock."""

from __future__ import annotations

import os
from pathlib import Path


def tree_cpu_s() -> float:
    """User and system time, also of descendants that are gone if their parents have waited for them."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            text = (folder / "stat").read_text()
        except OSError:
            continue  # it is gone
        fields = text.rpartition(")")[2].split()  # the name before may have blanks
        pid = int(folder.name)
        parents[pid] = int(fields[1])
        ticks[pid] = sum(map(int, fields[11:15]))
    mine = {os.getpid()}
    grown = True
    while grown:
        found = {pid for pid, parent in parents.items() if parent in mine} - mine
        mine |= found
        grown = bool(found)
    return sum(ticks.get(pid, 0) for pid in mine) / os.sysconf("SC_CLK_TCK")


def ticks_s(folder: Path) -> float:
    """User and system time of one process or thread, by its folder in /proc."""
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


class Neighbours:
    """How much of the machine's CPU time others took since this was made, where it is a virtual one."""

    def __init__(self) -> None:
        self._before = self._read()

    def __str__(self) -> str:
        stolen, spent = (after - before for after, before in zip(self._read(), self._before, strict=True))
        return f"meanwhile others took {stolen / max(spent, 1):.1%} of this machine's CPU time"

    @staticmethod
    def _read() -> tuple[int, int]:
        fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return fields[7], sum(fields)
