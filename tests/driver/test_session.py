"""Addresses: as the session has them, or an error that names the setting; never one that nobody asked for."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

from reshape.driver.session import come, driver_address, driver_listening, jvm_has_ended, slots_asked_for
from reshape.errors import FlowFailed, UnsuitableSession
from reshape.exchange.addresses import Listening
from reshape.host.host import own_address

NOWHERE = "no-such-machine.invalid"


def session(master: str, asked: dict[str, str] | None = None, **settings: str) -> Any:
    conf = {f"spark.driver.{name}": value for name, value in settings.items()} | (asked or {})
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, _conf=conf))


def test_the_driver_is_where_spark_says() -> None:
    assert driver_address(session("local[2]", host=NOWHERE)) == "127.0.0.1"
    assert driver_address(session("spark://m:7077", host="192.0.2.7")) == "192.0.2.7"
    assert driver_address(session("spark://m:7077", host="::1")) == "::1"
    assert driver_address(session("spark://m:7077", host="[2001:db8::7]")) == "2001:db8::7"


def test_a_driver_without_an_address_is_an_error_that_names_the_setting() -> None:
    with pytest.raises(
        UnsuitableSession, match=rf"spark\.driver\.host, which is '{NOWHERE}', which has no address here"
    ):
        driver_address(session("yarn", host=NOWHERE))
    with pytest.raises(UnsuitableSession, match=r"spark\.driver\.host, which is not set: set it"):
        driver_address(session("yarn"))


def test_the_driver_listens_where_sparks_own_listeners_do_unless_told() -> None:
    asked = Listening("192.0.2.1", 5000, 5010)
    cluster = session("k8s://x", host="driver-svc", bindAddress="10.0.0.4")
    assert driver_listening(cluster, Listening(None, 5000, 5010)) == Listening("10.0.0.4", 5000, 5010)
    assert driver_listening(cluster, asked) == asked
    assert driver_listening(session("yarn", host="x"), Listening()) == Listening()
    assert driver_listening(session("local[*]", bindAddress="10.0.0.4"), asked) == Listening(None, 5000, 5010)


def test_a_host_is_where_spark_says() -> None:
    assert own_address("192.0.2.7:4040", None) == "192.0.2.7"
    assert own_address("[::1]:4040", None) == "::1"
    with pytest.raises(
        FlowFailed, match=rf"the host on {NOWHERE}: its name has no address.*spark\.reshape\.bindAddress"
    ):
        own_address(f"{NOWHERE}:4040", None)
    assert own_address(f"{NOWHERE}:4040", "0.0.0.0") == NOWHERE


def test_slots_that_an_application_has_asked_for() -> None:
    executors = {"spark.executor.instances": "3", "spark.executor.cores": "4"}
    assert slots_asked_for(session("local[2]", executors)) == 0
    assert slots_asked_for(session("local-cluster[2,3,512]")) == 6
    assert slots_asked_for(session("yarn", executors)) == 12
    assert slots_asked_for(session("yarn", executors | {"spark.task.cpus": "2"})) == 6
    assert slots_asked_for(session("spark://m:7077", executors | {"spark.cores.max": "8"})) == 8
    assert slots_asked_for(session("spark://m:7077", {"spark.cores.max": "8"})) == 8
    assert slots_asked_for(session("spark://m:7077")) == 0


def test_executors_that_are_expected_are_waited_for() -> None:
    looks = iter([2, 2, 4])
    assert come(lambda: next(looks), lambda slots: slots >= 3, expected=4)
    assert list(looks) == []


def test_nobody_waits_for_executors_that_will_not_come_or_would_not_do() -> None:
    for expected, wanted in ((2, 3), (0, 3), (4, 5)):
        looks = iter([2])
        assert not come(lambda looks=looks: next(looks), lambda slots, wanted=wanted: slots >= wanted, expected)  # type: ignore[misc]
    assert not come(lambda: 2, lambda slots: slots >= 3, expected=4, within_s=0.0)


def test_a_jvm_that_breaks_its_connections_first_is_seen_to_end() -> None:
    dying = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.5)"])
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=SimpleNamespace(proc=dying)))
    assert jvm_has_ended(spark, Py4JNetworkError("Error while sending or receiving"))


def test_an_error_of_a_jvm_that_lives_is_not_its_end() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as living:
        spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=SimpleNamespace(proc=living)))
        assert not jvm_has_ended(spark, ValueError("of Spark's"))
    assert not jvm_has_ended(SimpleNamespace(sparkContext=SimpleNamespace(_gateway=None)), OSError())  # type: ignore[arg-type]
