"""The checks behind `reshape doctor`. Each judges one thing and says what to do about it."""

import importlib.metadata
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from reshape.errors import JavaNotFound
from reshape.machine import resources
from reshape.machine.java import find_java
from reshape.machine.resources import GIB
from reshape.machine.spark_trial import SparkTrialFailed, try_spark

Status = Literal["ok", "warn", "bad", "skip"]
Detail = str | int | float | None

OLDEST_PYTHON = (3, 11)
TRIED_JAVA = (17, 21)

# The driver's JVM takes 1 GiB of heap by default and half as much beside it, two Python workers 0.2 GiB each.
LEAST_MEMORY = 2 * GIB
# Room for queues, keyed state and the operating system's file cache as well.
GOOD_MEMORY = 4 * GIB

LEAST_DISK = 1 * GIB
GOOD_DISK = 5 * GIB

# Hosts live until their input ends and sources feed them, so one of each must run at the same time.
LEAST_SLOTS = 2


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: `found` is what is there, `advice` what to do (or empty), `details` the bare values."""

    name: str
    status: Status
    found: str
    advice: str = ""
    details: dict[str, Detail] = field(default_factory=dict)


def run_checks(*, start_spark: bool) -> Iterator[Check]:
    """One by one, each when it is known; the slow one comes last."""
    checks: tuple[Callable[[], Check], ...] = (
        check_python,
        check_java,
        check_pyspark,
        check_pandas,
        check_pyarrow,
        check_page,
        check_memory,
        check_cores,
        check_slots,
        check_disk,
        check_loopback,
    )
    for check in checks:
        yield check()
    if start_spark:
        yield check_spark_job()
    else:
        yield Check("Spark job", "skip", "not tried (--no-spark)")


def check_python() -> Check:
    version = platform.python_version()
    description = f"{version} at {sys.executable}"
    if sys.version_info < OLDEST_PYTHON:
        return Check("Python", "bad", description, "use Python 3.11 or newer", {"version": version})
    return Check("Python", "ok", description, details={"version": version})


def check_java() -> Check:
    try:
        java = find_java()
    except JavaNotFound as error:
        return Check("Java", "bad", "; ".join(error.rejected), str(error).split(". ", 1)[-1])
    details: dict[str, Detail] = {"version": java.version, "home": str(java.home), "source": java.source}
    description = f"{java.version} from {java.source}, {java.home}"
    if java.major > TRIED_JAVA[-1]:
        return Check(
            "Java", "warn", description, "reshape is tried with Java 17 and 21; use one if Spark fails", details
        )
    return Check("Java", "ok", description, details=details)


def check_pyspark() -> Check:
    return check_package("pyspark", "PySpark", oldest=(4, 3), below=(4, 4), wanted="pyspark>=4.3,<4.4")


def check_pandas() -> Check:
    return check_package("pandas", "pandas", oldest=(2, 2), below=(3,), wanted="pandas>=2.2,<3")


def check_package(
    distribution: str, name: str, *, oldest: tuple[int, ...], below: tuple[int, ...], wanted: str
) -> Check:
    remedy = f"pip install '{wanted}'"
    try:
        version = importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return Check(name, "bad", "not installed", remedy, {"version": None})
    release = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    fits = oldest <= release < below
    return Check(name, "ok" if fits else "bad", version, "" if fits else remedy, {"version": version})


def check_pyarrow() -> Check:
    try:
        import pyarrow
    except ImportError as error:
        return Check("pyarrow", "bad", f"cannot be imported: {error}", "pip install 'pyarrow>=19'")
    details: dict[str, Detail] = {"version": pyarrow.__version__}
    return Check("pyarrow", "ok", pyarrow.__version__, details=details)


def check_page() -> Check:
    """Optional: without its packages only the live page is missing."""
    versions: dict[str, Detail] = {}
    for distribution in ("starlette", "uvicorn"):
        try:
            versions[distribution] = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            advice = "for query.url, --open and reshape replay: pip install 'reshape[page]'"
            return Check("Live page", "skip", f"not possible without the package {distribution}", advice)
    return Check("Live page", "ok", ", ".join(f"{name} {version}" for name, version in versions.items()), "", versions)


def check_memory() -> Check:
    memory = resources.memory()
    limit = f", limited to {gib(memory.limit)} by a cgroup" if memory.limit is not None else ""
    description = f"{gib(memory.total)}, {gib(memory.available)} available{limit}"
    details: dict[str, Detail] = {
        "total_bytes": memory.total,
        "available_bytes": memory.available,
        "cgroup_limit_bytes": memory.limit,
    }
    if memory.total == 0:
        return Check("Memory", "warn", "unknown: there is no /proc/meminfo here", details=details)
    advice = f"give this machine or container {gib(GOOD_MEMORY)} or more"
    if memory.usable < LEAST_MEMORY:
        return Check("Memory", "bad", description, advice, details)
    if min(memory.usable, memory.available) < GOOD_MEMORY:
        return Check("Memory", "warn", description, f"{advice}, or end other programs", details)
    return Check("Memory", "ok", description, details=details)


def check_cores() -> Check:
    cores = resources.cores()
    quota = f", limited to {cores.quota:g} by a cgroup" if cores.quota is not None else ""
    description = f"{cores.affinity}{quota}"
    details: dict[str, Detail] = {"affinity": cores.affinity, "cgroup_quota": cores.quota}
    if min(cores.affinity, cores.quota or cores.affinity) < LEAST_SLOTS:
        return Check("Cores", "warn", description, "it will run, but hosts and sources take turns on one core", details)
    return Check("Cores", "ok", description, details=details)


def check_slots() -> Check:
    slots = resources.cores().slots
    description = f"local[*] gives {slots}; hosts and sources need {LEAST_SLOTS} or more at the same time"
    details: dict[str, Detail] = {"local": slots, "needed": LEAST_SLOTS}
    if slots < LEAST_SLOTS:
        advice = f'name the slots yourself: SparkSession.builder.master("local[{LEAST_SLOTS}]"), or more'
        return Check("Slots", "warn", description, advice, details)
    return Check("Slots", "ok", description, details=details)


def check_disk() -> Check:
    free_places: list[str] = []
    details: dict[str, Detail] = {}
    advice = "free some space, or set SPARK_LOCAL_DIRS to a directory on a larger disk"
    for directory in resources.spark_local_directories():
        try:
            free = resources.free_bytes(directory)
        except OSError as error:
            return Check("Disk", "bad", str(error), "set SPARK_LOCAL_DIRS to a directory that you may write to")
        details[str(directory)] = free
        free_places.append(f"{gib(free)} free in {directory}")
    # Spark spreads its files over all of them and fails when one is full.
    least = min((free for free in details.values() if isinstance(free, int)), default=0)
    status: Status = "bad" if least < LEAST_DISK else "warn" if least < GOOD_DISK else "ok"
    return Check("Disk", status, ", ".join(free_places), "" if status == "ok" else advice, details)


def check_loopback() -> Check:
    try:
        resources.loopback_port()
    except OSError as error:
        return Check(
            "Loopback",
            "bad",
            f"localhost cannot be used: {error}",
            "let localhost resolve to 127.0.0.1 (in /etc/hosts) and allow connections to it",
        )
    return Check("Loopback", "ok", "localhost resolves, and a port there can be bound and reached")


def check_spark_job() -> Check:
    try:
        trial = try_spark()
    except SparkTrialFailed as error:
        return Check("Spark job", "bad", str(error), "mend what is bad above; then call reshape doctor again")
    description = (
        f"a barrier job on Spark {trial.spark}, Java {trial.java} took {trial.seconds:.1f} s "
        f"from start to end; driver heap {gib(trial.heap_bytes)}"
    )
    details: dict[str, Detail] = {
        "spark": trial.spark,
        "java": trial.java,
        "seconds": trial.seconds,
        "jvm_processors": trial.processors,
        "heap_bytes": trial.heap_bytes,
    }
    return Check("Spark job", "ok", description, details=details)


def gib(amount: int) -> str:
    return f"{amount / GIB:.1f} GiB"
