"""Settings of flows. An option of the flow beats a setting of the session (`spark.reshape.*`), which beats the default.

In Python names are in snake_case (`queue_bytes`), in the session as Spark writes them (`spark.reshape.queueMemory`).
Sizes may be numbers of bytes or texts such as "256m". A join, union or set operation has the options of both flows;
where they differ, those of the left flow win.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from reshape.control.balancing import REPORT_S, Balancing
from reshape.control.options import SECONDS, Option, Read, count, flag, label, number, one_of, ports, size, text
from reshape.control.profile import MOST_WORKERS
from reshape.control.settings import OPTIONS as STRATEGY_OPTIONS
from reshape.control.strategies import STRATEGIES
from reshape.errors import SettingError
from reshape.exchange.addresses import Listening
from reshape.exchange.certificates import check_cryptography, own_certificate
from reshape.exchange.transport.access import Tls

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX = "spark.reshape."
# Settings by which Spark is told to encrypt what it sends, or what it writes to local disks.
ENCRYPTION = (
    "spark.network.crypto.enabled",
    "spark.ssl.enabled",
    "spark.ssl.rpc.enabled",
    "spark.io.encryption.enabled",
)
SCANS = ("auto", "arrow", "spark")
_BETWEEN = "\x1e"  # no setting has a record separator in it


class OperatorOptions(TypedDict, total=False):
    """Options of one operator of a flow (`Flow.tuned`). None leaves an option out."""

    strategy: str | None
    eta: float | None
    tau: float | None
    adaptive_tau: bool | None
    warmup_s: float | None
    helpers: int | None
    backlog: bool | None
    first_phase: str | None
    metric: str | None
    model: str | None
    half_life: float | None
    window_rows: int | None
    horizon_rows: int | None
    fixed_helpers: str | None
    cost_s_per_row: float | None


class ConnectionOptions(TypedDict, total=False):
    """Options of a flow's listeners. None leaves an option out, or removes it."""

    bind_address: str | None
    ports: int | str | None
    encrypt: bool | None
    tls_certificate: str | Path | None
    tls_key: str | Path | None
    tls_authority: str | Path | None
    tls_name: str | None


class FlowOptions(OperatorOptions, ConnectionOptions, total=False):
    """Options of a whole flow (`reshape.read`, `Flow.options`). None leaves an option out, or removes it."""

    name: str | None
    hosts: int | None
    workers: int | None
    queue_bytes: int | str | None
    spill: bool | None
    spill_limit_bytes: int | str | None
    combine: bool | None
    scan: str | None
    ordered: bool | None
    control_delay_s: float | None
    report_s: float | None
    event_log: str | Path | None


def _setting(key: str, read: Read, default: Any, *, per_operator: bool = False) -> Any:
    return field(default=default, metadata={"key": key, "read": read, "per_operator": per_operator})


@dataclass(frozen=True, slots=True)
class FlowSettings:
    """All settings of a flow with their defaults.

    - ``name``: what the flow is called in Spark's UI and in errors.
    - ``hosts``: tasks that run operators. Unless given: where hosts read all sources by themselves, one for each slot
      of the session (in a local one, for each core); else about half of its slots (docs/clusters.md).
    - ``workers``: workers of each operator, over all hosts; two for each host unless given.
    - ``queue_bytes``: rows that may wait in the memory of one host before they go to disk.
    - ``spill``: whether they may go to disk; if not, senders wait.
    - ``spill_limit_bytes``: the most that one host may write to disk; as much as there is unless given.
    - ``combine``: whether senders aggregate what they can before they send it.
    - ``scan``: who reads Parquet files: hosts by Arrow where that gives exactly Spark's rows, else Spark (auto); hosts,
      or an error that says why they cannot (arrow); Spark (spark).
    - ``ordered``: whether the running result needs the rows of a key in the order in which they were sent, as a line
      chart does (``flow.line`` sets it). Load then moves key by key only.
    - ``strategy``: how load moves between workers: reshape, reshape-paper (as published, future rows only), flux,
      flow-join, pkg (partial key grouping), none.
    - ``strategy_options``: parameters of the strategy by name (``eta``, ``tau``, ...), each an option of its own; see
      `reshape.control.settings`. None is needed: what is not given is derived from what is observed. Among them
      ``fixed_helpers``: only these workers are relieved, by these helpers ("0: 10 11, 6: 4"), for experiments.
    - ``cost_s_per_row``: emulated cost of a row in every operator, in seconds, for experiments.
    - ``control_delay_s``: emulated delay of control messages, each way, in seconds, for experiments.
    - ``report_s``: seconds between two reports of a task, and between two looks of the strategy at them. They
      are further apart where a flow has more than 64 tasks: reports are not to keep the driver busy.
    - ``event_log``: a directory that gets a file of JSON lines per run, with every report and every decision.
    - ``bind_address``: where listeners of the driver and of hosts are opened on a cluster, 0.0.0.0 or :: for all
      addresses. Unless given: only at the address that the others use, in the driver at spark.driver.bindAddress.
    - ``ports``: the port of these listeners, or a range ("40000-40100") of which each takes one that is free; the
      system chooses unless given. A driver has one listener, and each host of each flow that runs.
    - ``encrypt``: whether connections of the flow and rows on disk are encrypted, by a certificate and keys that are
      made for it. They are, too, where Spark is told to encrypt its own (spark.network.crypto.enabled,
      spark.ssl.enabled, spark.ssl.rpc.enabled, spark.io.encryption.enabled). Needs the package cryptography.
    - ``tls_certificate``, ``tls_key``, ``tls_authority``: PEM files on the driver. Given, all connections of the flow
      are encrypted. The key travels to the tasks with the job, so let Spark encrypt its own connections too
      (spark.network.crypto.enabled).
    - ``tls_name``: the name in the certificate.
    """

    name: str = _setting("name", label, "flow")
    hosts: int | None = _setting("hosts", count(MOST_WORKERS), None)
    workers: int | None = _setting("workers", count(MOST_WORKERS), None)
    queue_bytes: int = _setting("queueMemory", size, 256 * 1024 * 1024)
    spill: bool = _setting("spill", flag, True)
    spill_limit_bytes: int | None = _setting("spillLimit", size, None)
    combine: bool = _setting("combine", flag, True)
    scan: str = _setting("scan", one_of(SCANS), "auto")
    ordered: bool = _setting("ordered", flag, False)
    strategy: str = _setting("strategy", one_of(STRATEGIES), "reshape", per_operator=True)
    strategy_options: Mapping[str, Any] = field(default_factory=dict)
    cost_s_per_row: float = _setting("costPerRow", number(0.0, SECONDS), 0.0, per_operator=True)
    control_delay_s: float = _setting("controlDelay", number(0.0, SECONDS), 0.0)
    report_s: float = _setting("reportInterval", number(0.02, "a number of seconds, 0.02 or more"), REPORT_S)
    event_log: str | None = _setting("eventLog", text, None)
    bind_address: str | None = _setting("bindAddress", text, None)
    ports: str | None = _setting("ports", ports, None)
    encrypt: bool = _setting("encrypt", flag, False)
    tls_certificate: str | None = _setting("tls.certificate", text, None)
    tls_key: str | None = _setting("tls.key", text, None)
    tls_authority: str | None = _setting("tls.authority", text, None)
    tls_name: str = _setting("tls.name", text, "reshape")

    def with_options(self, options: Mapping[str, Any]) -> FlowSettings:
        """Return these settings with some of them replaced by checked options."""
        own = {name: value for name, value in options.items() if name not in STRATEGY_OPTIONS}
        of_strategy = {name: value for name, value in options.items() if name in STRATEGY_OPTIONS}
        return replace(self, **own, strategy_options={**self.strategy_options, **of_strategy})

    def listening(self) -> Listening:
        """Return where listeners are opened."""
        first, last = map(int, (self.ports or "0-0").split("-"))
        return Listening(self.bind_address, first, last)

    def balancing(self) -> Balancing:
        """Return the strategy with its parameters; those that were not given are the strategy's own defaults."""
        defaults = STRATEGIES[self.strategy].defaults()
        return Balancing(self.strategy, defaults.with_options(self.strategy_options), self.control_delay_s)

    def tls(self) -> Tls | None:
        """Read the certificate, its key and its authority; None when connections are not encrypted."""
        names = ("tls_certificate", "tls_key", "tls_authority")
        paths = {name: getattr(self, name) for name in names}
        given = [name for name in names if paths[name] is not None]
        if self.encrypt and self.spill:
            check_cryptography("the driver")  # executors are told to need it too
        if not given:
            return own_certificate() if self.encrypt else None
        if len(given) < len(names):
            missing = ", ".join(name for name in names if name not in given)
            raise SettingError(f"{', '.join(given)} given without {missing}; TLS needs all three files")
        texts = {}
        for name, path in paths.items():
            try:
                texts[name] = Path(str(path)).read_text()
            except OSError as error:
                raise SettingError(f"{_both(name)} = {path!r} cannot be read on the driver: {error}") from error
            if "-----BEGIN" not in texts[name]:
                raise SettingError(f"{_both(name)} = {path!r} is not a PEM file: it has no -----BEGIN line")
        return Tls(texts["tls_certificate"], texts["tls_key"], texts["tls_authority"], self.tls_name)


def _all_options() -> dict[str, Option]:
    """All options by name, in the order of the settings; those of the strategy are where its parameters are."""
    options: dict[str, Option] = {}
    for f in fields(FlowSettings):
        if f.metadata:
            options[f.name] = Option(f.name, **f.metadata)
        else:
            options |= STRATEGY_OPTIONS
    return options


OPTIONS = _all_options()
_NAMES = {PREFIX + option.key: name for name, option in OPTIONS.items()}

# What one operator of a flow can have of its own.
TUNABLE = tuple(name for name, option in OPTIONS.items() if option.per_operator)


def checked_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a flow, each in its type and without those that are None. Raises `SettingError`."""
    unknown = [name for name in options if name not in OPTIONS]
    if unknown:
        raise SettingError(f"there is no option {unknown[0]!r}{_meant(unknown[0], OPTIONS)}; {_listed(OPTIONS)}")
    return {name: _checked(name, name, value) for name, value in options.items() if value is not None}


def settings_of(session: Mapping[str, str], options: Mapping[str, Any]) -> FlowSettings:
    """The settings of a flow in a session with these settings. What Spark encrypts, flows encrypt too."""
    of_session: dict[str, Any] = {}
    for key, value in sorted(session.items()):
        if not key.startswith(PREFIX):
            continue
        name = _NAMES.get(key)
        if name is None:
            raise SettingError(f"there is no setting {key}{_meant(key, _NAMES)}; {_listed(_NAMES)}")
        of_session[name] = _checked(name, key, value)
    settings = FlowSettings().with_options({**of_session, **checked_options(options)})
    if any(session.get(key, "").strip().lower() == "true" for key in ENCRYPTION):
        settings = replace(settings, encrypt=True)
    if settings.hosts is not None and settings.workers is not None and settings.workers < settings.hosts:
        raise SettingError(
            f"workers = {settings.workers} is less than hosts = {settings.hosts}; each host needs a worker of its own: "
            "give more workers or fewer hosts"
        )
    return settings


def session_settings(spark: SparkSession) -> dict[str, str]:
    """All settings of a session. In one call: `conf.getAll` takes one for each of them, 30 ms in all."""
    settings: Any = spark._jsparkSession.conf().getAll()
    pairs = (pair.partition(" -> ") for pair in settings.mkString(_BETWEEN).split(_BETWEEN))
    return {key: value for key, _, value in pairs}


def _checked(name: str, shown: str, value: Any) -> Any:
    try:
        return OPTIONS[name].read(value)
    except ValueError as error:
        raise SettingError(f"{shown} = {value!r} is not possible; it must be {error}") from None


def _both(name: str) -> str:
    return f"{name} ({PREFIX}{OPTIONS[name].key})"


def _meant(name: str, there_are: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, there_are, 1)
    return f" (did you mean {near[0]}?)" if near else ""


def _listed(there_are: Mapping[str, Any]) -> str:
    return f"there are {', '.join(there_are)}"
