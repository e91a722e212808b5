"""What a Spark session offers: slots, addresses, and settings that rule flows out."""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]

from reshape.driver.session_flows import flows_of
from reshape.driver.slots import FlowSlots, can_end, hosts_beside_sources
from reshape.errors import TooFewSlots, UnsuitableSession
from reshape.exchange.addresses import LOCAL, Listening, resolved
from reshape.machine.resources import cores
from reshape.machine.task_python import check_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Executors register seconds after their session was made, or after the one that they replace was lost. Whoever waits
# for them hears of too few slots within half a minute.
REGISTERING_S = 20.0
LOOK_S = 0.2
# A JVM that is killed breaks its connections first; its memory goes in a moment, on a busy machine in seconds.
ENDING_S = 10.0

_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]")


def is_local(spark: SparkSession) -> bool:
    master = spark.sparkContext.master or ""
    return master == "local" or master.startswith("local[")


def jvm_has_ended(spark: SparkSession, error: Exception) -> bool:
    """Is it why a call to it failed, that the JVM has ended that this process started? One that was started by
    something else is not known."""
    process = getattr(spark.sparkContext._gateway, "proc", None)
    if process is None:
        return False
    if isinstance(error, Py4JError | OSError) and not isinstance(error, Py4JJavaError):
        with suppress(subprocess.TimeoutExpired):
            process.wait(ENDING_S)
    return process.poll() is not None


def result_folder(spark: SparkSession, *, encrypt: bool) -> str | None:
    """A new folder for the rows of a result that all tasks can read; it goes with the application, if not before.
    None where tasks are on several machines, or rows on disk have to be encrypted: there Spark keeps them."""
    if encrypt or not is_local(spark):
        return None
    return tempfile.mkdtemp(prefix="reshape-result-", dir=str(spark.sparkContext._temp_dir))


def driver_address(spark: SparkSession) -> str:
    """Where executors reach the driver: loopback when they are in the same process."""
    if is_local(spark):
        return LOCAL
    host = spark.sparkContext._conf.get("spark.driver.host") or ""
    try:
        if host:
            return resolved(host)
        cause = "is not set"
    except OSError as error:
        cause = f"is {host!r}, which has no address here ({error})"
    raise UnsuitableSession(
        f"executors reach the driver at spark.driver.host, which {cause}: set it to a name or address of the driver's "
        "machine"
    )


def driver_listening(spark: SparkSession, listening: Listening) -> Listening:
    """Where the driver listens: as Spark's own listeners do, unless flows have a setting of their own."""
    if is_local(spark):
        return listening.on_loopback()
    bind = listening.bind or spark.sparkContext._conf.get("spark.driver.bindAddress")
    return replace(listening, bind=bind)


def check(spark: SparkSession, flow: FlowSlots) -> None:
    """Raise unless this session can run the hosts of a flow, and sources that Spark reads, at the same time."""
    # Not by the context's getConf(), which copies all settings one by one: 5 ms for each flow.
    if spark.sparkContext._conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        raise UnsuitableSession(
            "Spark runs no barrier stage, as a flow's hosts are, with executors that come and go: "
            "set spark.dynamicAllocation.enabled to false for this application"
        )
    if is_local(spark):  # tasks of a cluster get the package with the job
        check_python(spark.sparkContext.pythonExec)
    flows = flows_of(spark.sparkContext)

    def enough(slots: int) -> bool:
        return slots >= flow.least and (not flow.reads or can_end(flow.reads, slots - flow.hosts))

    if not come(flows.slots, enough, max(flows.most_slots, slots_asked_for(spark))):
        raise too_few_slots(spark, flow)


def come(
    slots: Callable[[], int], enough: Callable[[int], bool], expected: int, within_s: float = REGISTERING_S
) -> bool:
    """Whether there are enough slots, now or soon: executors that are expected are waited for if they would do."""
    deadline = time.monotonic() + within_s
    while not enough(have := slots()):
        if have >= expected or not enough(expected) or time.monotonic() >= deadline:
            return False
        time.sleep(LOOK_S)
    return True


def slots_asked_for(spark: SparkSession) -> int:
    """Slots that the application has asked its cluster for; 0 where it takes what it gets, and in local sessions, which
    have theirs from the start."""
    context = spark.sparkContext
    if is_local(spark):
        return 0
    if cluster := _LOCAL_CLUSTER.fullmatch(context.master or ""):
        executors, cores_each = int(cluster[1]), int(cluster[2])
    else:
        executors = int(context._conf.get("spark.executor.instances") or 0)
        # Where it is not set, YARN and Kubernetes give each executor one core, a standalone cluster all of a machine's.
        cores_each = int(context._conf.get("spark.executor.cores") or 1)
    task_cpus = int(context._conf.get("spark.task.cpus") or 1)
    at_most = context._conf.get("spark.cores.max")
    slots = executors * (cores_each // task_cpus)
    if at_most is None:
        return slots
    return min(slots, int(at_most) // task_cpus) if slots else int(at_most) // task_cpus


def too_few_slots(spark: SparkSession, flow: FlowSlots) -> TooFewSlots:
    """An error that says what there is, what a flow needs and what to do."""
    have = flows_of(spark.sparkContext).slots()
    enough = flow.hosts + max(sum(read.least for read in flow.reads), 2 * flow.sources)
    fewer = "give the flows that it reads fewer hosts (hosts=1)" if flow.reads else "ask for fewer hosts"
    advice = (
        f"Start the session with local[{enough}] or more, or {fewer}."
        if is_local(spark)
        else "Give the application more executors or cores (spark.executor.instances, spark.executor.cores), or "
        f"{fewer}."
    )
    return TooFewSlots(have, flow.hosts, flow.sources, advice, tuple((read.name, read.hosts) for read in flow.reads))


def default_hosts(spark: SparkSession, by_spark: Sequence[DataFrame] = ()) -> tuple[int, int]:
    """For a flow of which Spark reads these sources; and tasks to spare. Where it reads none, all slots, but no more
    than cores: a local session has more slots than cores, and hosts do not wait for each other much."""
    flows = flows_of(spark.sparkContext)
    have = flows.slots()
    if by_spark:
        return hosts_beside_sources(have, flows.read_by(by_spark))
    return min(have, cores().slots) if is_local(spark) else have, 0
