"""Settings: option beats session beats default; what cannot be is told with what can."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from reshape.conf import PREFIX, TUNABLE, FlowOptions, FlowSettings, OperatorOptions, checked_options, settings_of
from reshape.control.settings import OPTIONS, AdaptiveTau, FirstPhase, StrategySettings
from reshape.errors import SettingError, UnsuitableSession
from reshape.exchange.addresses import Listening
from reshape.exchange.certificates import own_certificate


def session(**settings: str) -> dict[str, str]:
    """Settings as a session has them; a real one is used in tests/spark/test_api.py."""
    return {"spark.app.name": "x", **settings}


def test_defaults() -> None:
    assert settings_of(session(), {}) == FlowSettings()
    assert FlowSettings().queue_bytes == 256 * 1024 * 1024
    assert FlowSettings().tls() is None


def test_an_option_beats_the_session_which_beats_the_default() -> None:
    spark = session(**{"spark.reshape.workers": "6", "spark.reshape.queueMemory": "2g", "spark.reshape.spill": "false"})
    settings = settings_of(spark, {"workers": 8})
    assert (settings.workers, settings.queue_bytes, settings.spill, settings.combine) == (8, 2 << 30, False, True)


def test_none_leaves_an_option_out() -> None:
    assert checked_options({"hosts": None, "name": "sales"}) == {"name": "sales"}


@pytest.mark.parametrize(
    ("text", "size"), [("256m", 256 << 20), ("1k", 1024), ("2GiB", 2 << 30), ("3 tb", 3 << 40), ("77", 77), (77, 77)]
)
def test_sizes(text: Any, size: int) -> None:
    assert checked_options({"queue_bytes": text}) == {"queue_bytes": size}


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("hosts", 0, "hosts = 0 is not possible; it must be a whole number from 1"),
        ("hosts", True, "hosts = True is not possible"),
        ("hosts", "two", "hosts = 'two' is not possible"),
        ("hosts", 1.5, "hosts = 1.5 is not possible"),
        ("workers", 65_536, "workers = 65536 is not possible; it must be a whole number from 1 to 65,535"),
        ("queue_bytes", "lots", "queue_bytes = 'lots' is not possible; it must be a size"),
        ("queue_bytes", 0, "at least one byte"),
        ("queue_bytes", -5, "at least one byte"),
        ("queue_bytes", 0.5, "at least one byte"),
        ("spill", "perhaps", "spill = 'perhaps' is not possible; it must be true or false"),
        ("spill", 1, "it must be true or false"),
        ("name", "", "name = '' is not possible; it must be a text"),
    ],
)
def test_values_that_cannot_be(option: str, value: Any, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        checked_options({option: value})


def test_unknown_names_are_listed_against_those_that_exist() -> None:
    with pytest.raises(
        SettingError, match=r"no option 'worker' \(did you mean workers\?\); there are name, hosts, work"
    ):
        checked_options({"worker": 3})
    with pytest.raises(
        SettingError, match=r"no setting spark.reshape.queue_memory \(did you mean spark.reshape.queueM"
    ):
        settings_of(session(**{"spark.reshape.queue_memory": "1g"}), {})


def test_an_error_names_the_setting_of_the_session() -> None:
    with pytest.raises(SettingError, match=r"spark.reshape.hosts = 'many' is not possible"):
        settings_of(session(**{f"{PREFIX}hosts": "many"}), {})


def test_each_host_needs_a_worker() -> None:
    with pytest.raises(SettingError, match="workers = 2 is less than hosts = 3"):
        settings_of(session(), {"hosts": 3, "workers": 2})


def test_tls_needs_three_readable_pem_files(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.pem", tmp_path / "bad.pem"
    good.write_text("-----BEGIN CERTIFICATE-----")
    bad.write_text("no certificate")
    with pytest.raises(SettingError, match="tls_certificate given without tls_key, tls_authority"):
        FlowSettings(tls_certificate=str(good)).tls()
    paths: dict[str, Any] = {"tls_certificate": str(good), "tls_key": str(good)}
    with pytest.raises(SettingError, match=r"tls_authority \(spark.reshape.tls.authority\) = .* cannot be read"):
        FlowSettings(**paths, tls_authority=str(tmp_path / "none")).tls()
    with pytest.raises(SettingError, match=r"bad.pem' is not a PEM file"):
        FlowSettings(**paths, tls_authority=str(bad)).tls()
    assert FlowSettings(**paths, tls_authority=str(good)).tls() is not None
    assert "BEGIN" not in repr(FlowSettings(**paths, tls_authority=str(good)))


@pytest.mark.parametrize(
    "asked",
    ["spark.network.crypto.enabled", "spark.ssl.enabled", "spark.ssl.rpc.enabled", "spark.io.encryption.enabled"],
)
def test_what_spark_encrypts_flows_encrypt_too(asked: str) -> None:
    settings = settings_of(session(**{asked: "true"}), {"encrypt": False})
    assert settings.encrypt
    tls = settings.tls()
    assert tls is not None
    assert tls.mutual
    assert tls is FlowSettings(encrypt=True).tls(), "one for the application"
    assert "PRIVATE KEY" not in repr(tls)
    assert settings_of(session(**{asked: "false"}), {}).tls() is None


def test_encryption_without_its_package_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    own_certificate.cache_clear()
    for settings in (FlowSettings(encrypt=True), FlowSettings(encrypt=True, spill=False)):
        with pytest.raises(UnsuitableSession, match=r"the driver has no package cryptography.*reshape\[tls\]"):
            settings.tls()


@pytest.mark.parametrize("name", ["two\nlines", "nul\0", "x" * 201, "\x1b[31m"])
def test_names_that_cannot_be_shown_are_refused(name: str) -> None:
    with pytest.raises(SettingError, match="it must be a text of at most 200 characters that can all be printed"):
        checked_options({"name": name})


@pytest.mark.parametrize(("given", "ports"), [(5000, (5000, 5000)), ("40000-40100", (40_000, 40_100))])
def test_ports(given: Any, ports: tuple[int, int]) -> None:
    settings = settings_of(session(), checked_options({"ports": given, "bind_address": "::"}))
    assert settings.listening() == Listening("::", *ports)
    assert FlowSettings().listening() == Listening(None, 0, 0)


@pytest.mark.parametrize("given", [80, 0, 70_000, True, "5000-", "-5000", "9000-8000", "a-b", ""])
def test_ports_that_cannot_be(given: Any) -> None:
    with pytest.raises(SettingError, match=r"ports = .* is not possible; it must be a port from 1024 to 65535"):
        checked_options({"ports": given})


def test_options_are_typed_by_exactly_the_names_of_the_settings() -> None:
    with pytest.raises(SettingError) as caught:
        checked_options({"nothing like it": 1})
    listed = str(caught.value).partition("there are ")[2].split(", ")
    assert set(FlowOptions.__annotations__) == set(listed)
    assert set(OperatorOptions.__annotations__) == set(TUNABLE)
    assert set(TUNABLE) == {"strategy", *OPTIONS, "cost_s_per_row"}


def test_every_option_has_a_setting_of_the_session_of_its_own() -> None:
    with pytest.raises(SettingError) as caught:
        settings_of(session(**{f"{PREFIX}nothingLikeIt": "1"}), {})
    keys = str(caught.value).partition("there are ")[2].split(", ")
    assert len(set(keys)) == len(FlowOptions.__annotations__)
    assert all(key.startswith(PREFIX) for key in keys)


# A value for each option of a strategy, as a session would have it, and what becomes of it.
GIVEN: dict[str, tuple[str, Any]] = {
    "eta": ("7", 7.0),
    "tau": ("8.5", 8.5),
    "adaptive_tau": ("false", None),
    "warmup_s": ("3", 3.0),
    "helpers": ("2", 2),
    "backlog": ("no", False),
    "first_phase": ("part", FirstPhase.PART),
    "metric": ("busy", "busy"),
    "model": ("recency", "recency"),
    "half_life": ("4", 4.0),
    "window_rows": ("100", 100),
    "horizon_rows": ("500", 500),
    "fixed_helpers": ("0: 10 11, 6: 4", {0: (10, 11), 6: (4,)}),
}


def test_each_option_of_a_strategy_reaches_it() -> None:
    assert list(GIVEN) == list(OPTIONS)
    for name, (text, value) in GIVEN.items():
        field = {"adaptive_tau": "adaptive"}.get(name, name)
        wanted = StrategySettings(**{field: value})
        by_session = settings_of(session(**{PREFIX + OPTIONS[name].key: text}), {}).balancing()
        by_option = settings_of(session(), {name: text}).balancing()
        assert by_session.settings == by_option.settings == wanted, name


def test_what_is_not_given_is_what_the_strategy_is_known_for() -> None:
    assert settings_of(session(), {"strategy": "flux"}).balancing().settings == StrategySettings.paper()
    tuned = settings_of(session(), {"strategy": "reshape-paper", "tau": 5}).balancing()
    assert tuned.settings == StrategySettings.paper(tau=5.0)
    again = settings_of(session(), {"strategy": "reshape-paper", "adaptive_tau": True}).balancing().settings
    assert again is not None
    assert again.adaptive == AdaptiveTau()


def test_an_operator_keeps_the_options_of_its_flow() -> None:
    flow = settings_of(session(), {"tau": 5, "workers": 4, "cost_s_per_row": 0.5})
    operator = flow.with_options({"eta": 3.0, "cost_s_per_row": 0.0})
    assert operator.balancing().settings == StrategySettings(tau=5.0, eta=3.0)
    assert (operator.workers, operator.cost_s_per_row, flow.cost_s_per_row) == (4, 0.0, 0.5)
