"""What a run has started and what is left of it: processes by a mark in their environment, ports, files."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

MARK = "RESHAPE_TEST_MARK"
_LISTENING, _CONNECTED = "0A", "01"
# Generous: the machine may be busy with other things. What is measured is printed.
LIMIT_S = 90.0


def processes(mark: str) -> dict[int, str]:
    """Process id to command line of all that carry the mark."""
    wanted = f"{MARK}={mark}".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0") and not _is_zombie(entry):
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue  # it has just ended
    return found


def _is_zombie(entry: Path) -> bool:
    return (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"


def ports(pid: int) -> list[int]:
    """Ports that a process listens on."""
    return [int(row[1].rpartition(":")[2], 16) for row in _sockets(pid) if row[3] == _LISTENING]


def _peers(pid: int) -> set[int]:
    """Ports that a process is connected to."""
    return {int(row[2].rpartition(":")[2], 16) for row in _sockets(pid) if row[3] == _CONNECTED}


def _sockets(pid: int) -> list[list[str]]:
    """Local address, other address, state and so on of each, as the system lists them."""
    try:
        links = [os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd")]
        tables = [Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    except OSError:
        return []
    inodes = {link[8:-1] for link in links if link.startswith("socket:[")}
    return [row for table in tables for row in map(str.split, table) if row[9] in inodes]


def host_processes(mark: str) -> list[int]:
    """Python workers that listen: hosts do, all others do not. (Their daemon does too, but no daemon is its parent.)"""
    return [pid for pid in _workers(mark) if ports(pid)]


def source_processes(mark: str) -> list[int]:
    """Python workers that are connected to hosts and are none."""
    hosts = host_processes(mark)
    listening = {port for pid in hosts for port in ports(pid)}
    return [pid for pid in _workers(mark) if pid not in hosts and _peers(pid) & listening]


def _workers(mark: str) -> list[int]:
    python = [pid for pid, command in processes(mark).items() if "pyspark.daemon" in command]
    return [pid for pid in python if _parent(pid) in python]


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def files(directory: Path) -> list[Path]:
    """All files below a directory. Those that go meanwhile, folders too, are no error."""
    return [Path(folder, name) for folder, _, names in os.walk(directory) for name in names]


def spilled(directories: Iterable[Path]) -> list[Path]:
    return [
        file for directory in directories for file in files(directory) if file.parent.name.startswith("reshape-spill-")
    ]


def until(what: str, condition: Callable[[], T], limit_s: float = LIMIT_S) -> T:
    """Wait for a condition to hold; what it gave."""
    deadline = time.monotonic() + limit_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {limit_s:.0f} s for {what}; there is {value!r}"
        time.sleep(0.1)
    return value
