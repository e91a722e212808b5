"""What a Spark session offers: slots, addresses, and settings that rule flows out."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from reshape.driver.session_flows import flows_of
from reshape.driver.slots import FlowSlots, can_end, hosts_beside_sources
from reshape.errors import TooFewSlots, UnsuitableSession
from reshape.exchange.addresses import LOCAL, Listening, resolved
from reshape.machine.resources import cores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def is_local(spark: SparkSession) -> bool:
    master = spark.sparkContext.master or ""
    return master == "local" or master.startswith("local[")


def jvm_has_ended(spark: SparkSession) -> bool:
    """Has the JVM ended that this process started? One that was started by something else is not known."""
    process = getattr(spark.sparkContext._gateway, "proc", None)
    return process is not None and process.poll() is not None


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
    have = flows_of(spark.sparkContext).slots()
    if have < flow.least or (flow.reads and not can_end(flow.reads, have - flow.hosts)):
        raise too_few_slots(spark, flow)


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


def default_hosts(spark: SparkSession, by_spark: Sequence[DataFrame] = ()) -> int:
    """For a flow of which Spark reads these sources. Where it reads none, all slots, but no more than cores: a local
    session has more slots than cores, and hosts do not wait for each other much."""
    flows = flows_of(spark.sparkContext)
    have = flows.slots()
    if by_spark:
        return hosts_beside_sources(have, flows.read_by(by_spark), alone=not flows.has_others())
    return min(have, cores().slots) if is_local(spark) else have
