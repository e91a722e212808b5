"""What this process may use of the machine: memory, cores, disk, loopback. Reads only; starts nothing."""

import os
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

GIB = 1024**3

# Version 1 of cgroups writes "no limit" as the largest multiple of a page below 2**63.
UNLIMITED = 2**60


@dataclass(frozen=True, slots=True)
class Memory:
    """In bytes. `limit` is the tightest cgroup limit, None where there is none."""

    total: int
    available: int
    limit: int | None

    @property
    def usable(self) -> int:
        return self.total if self.limit is None else min(self.total, self.limit)


@dataclass(frozen=True, slots=True)
class Cores:
    """`affinity`: cores that the process may run on; `quota`: the cgroup's limit in cores, or None."""

    affinity: int
    quota: float | None

    @property
    def slots(self) -> int:
        """What `local[*]` gives: a JVM counts its processors like this, and rounds a part of a core up."""
        if self.quota is None:
            return self.affinity
        return max(1, min(self.affinity, -int(-self.quota // 1)))


def memory(root: Path = Path("/")) -> Memory:
    kib = {"MemTotal": 0, "MemAvailable": 0}
    for line in (read(root / "proc/meminfo") or "").splitlines():
        name, _, amount = line.partition(":")
        if name in kib:
            kib[name] = int(amount.split()[0])
    limits = [
        int(text)
        for directory in cgroups("memory", root)
        for file in ("memory.max", "memory.limit_in_bytes")
        if (text := read(directory / file)) and text.isdigit()
    ]
    limit = min(limits, default=UNLIMITED)
    return Memory(kib["MemTotal"] * 1024, kib["MemAvailable"] * 1024, limit if limit < UNLIMITED else None)


def cores(root: Path = Path("/")) -> Cores:
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [quota for directory in cgroups("cpu", root) if (quota := cpu_quota(directory)) is not None]
    return Cores(affinity, min(quotas, default=None))


def cpu_quota(cgroup: Path) -> float | None:
    limit = (read(cgroup / "cpu.max") or "").split()
    if not limit:
        limit = [read(cgroup / f"cpu.cfs_{part}_us") or "" for part in ("quota", "period")]
    if len(limit) != 2 or not all(part.isdigit() for part in limit):
        return None
    return int(limit[0]) / int(limit[1])


def cgroups(controller: str, root: Path) -> Iterator[Path]:
    """The directories whose limits bind this process: its cgroup and all above it, in both cgroup versions.

    Inside a container the path in /proc may name a directory that only the host sees; then the top counts.
    """
    for line in (read(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup" / (controllers and controller)
        own = top / path.lstrip("/")
        for directory in (own, *own.parents):
            if directory.is_dir():
                yield directory
            if directory == top:
                break


def spark_local_directories() -> list[Path]:
    """Where Spark puts shuffle and spill files unless its configuration says otherwise."""
    return [Path(part) for part in os.environ.get("SPARK_LOCAL_DIRS", "/tmp").split(",") if part]


def free_bytes(directory: Path) -> int:
    """Raises `OSError` when the directory is missing or may not be written to."""
    if not os.access(directory, os.W_OK | os.X_OK):
        raise OSError(f"{directory} is missing or not writable")
    return shutil.disk_usage(directory).free


def loopback_port() -> int:
    """Resolves localhost, listens there and connects to it; returns the port used. Raises `OSError`."""
    address = socket.getaddrinfo("localhost", 0, family=socket.AF_INET, type=socket.SOCK_STREAM)[0][4]
    with socket.create_server((str(address[0]), 0)) as server:
        port: int = server.getsockname()[1]
        socket.create_connection((str(address[0]), port), timeout=5).close()
    return port


def read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
