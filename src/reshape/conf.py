"""Settings of flows. An option of the flow beats a setting of the session (`spark.reshape.*`), which beats the default.

In Python names are in snake_case (`queue_bytes`), in the session as Spark writes them (`spark.reshape.queueMemory`).
Sizes may be numbers of bytes or texts such as "256m". Where two flows meet (join, union, ...), both keep their options
unless they differ; then those of the left one win.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reshape.control.balancing import REPORT_S, Balancing
from reshape.control.settings import AdaptiveTau, FirstPhase
from reshape.control.strategies import STRATEGIES
from reshape.control.workload import METRICS
from reshape.errors import ReshapeError
from reshape.exchange.flight import Tls
from reshape.exchange.wire import MOST_WORKERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX = "spark.reshape."

_SIZE = re.compile(r"(\d+)\s*([kmgt]?)i?b?", re.IGNORECASE)
_PAIRS = re.compile(r"\d+:( *\d+)+(, *\d+:( *\d+)+)*")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_TRUTH = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False, "on": True, "off": False}


class SettingError(ReshapeError):
    """A setting that does not exist or cannot have this value; says what can."""


def _text(value: Any) -> str:
    if not isinstance(value, str | Path) or not str(value).strip():
        raise ValueError("a text")
    return str(value)


def _flag(value: Any) -> bool:
    known = value if isinstance(value, bool) else _TRUTH.get(value.strip().lower()) if isinstance(value, str) else None
    if known is None:
        raise ValueError("true or false")
    return known


def _count(most: int) -> Callable[[Any], int]:
    def count(value: Any) -> int:
        expected = ValueError(f"a whole number from 1 to {most:,}")
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise expected
        try:
            number = int(value)
        except ValueError:
            raise expected from None
        if not 1 <= number <= most:
            raise expected
        return number

    return count


def _number(least: float, what: str) -> Callable[[Any], float]:
    def number(value: Any) -> float:
        expected = ValueError(what)
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise expected
        try:
            found = float(value)
        except ValueError:
            raise expected from None
        if not isfinite(found) or found < least:
            raise expected
        return found

    return number


def _one_of(names: Iterable[str]) -> Callable[[Any], str]:
    def one_of(value: Any) -> str:
        known = sorted(names)  # looked up late: strategies can be added
        if value not in known:
            raise ValueError(f"one of {', '.join(known)}")
        return str(value)

    return one_of


def _pairs(value: Any) -> str:
    expected = ValueError('pairs of a skewed worker and its helpers such as "0: 10 11, 6: 4"')
    if not isinstance(value, str) or not _PAIRS.fullmatch(value.strip()):
        raise expected
    return value.strip()


_SECONDS = "a number of seconds, 0 or more"
_ROWS = "a number of rows, more than 0"


def _size(value: Any) -> int:
    expected = ValueError('a size of at least one byte, as a number of bytes or as a text such as "256m" or "2g"')
    match = _SIZE.fullmatch(str(value).strip())
    if match is None or isinstance(value, bool) or not isinstance(value, int | str):
        raise expected
    size = int(match[1]) * _UNITS[match[2].lower()]
    if size < 1:
        raise expected
    return size


def _setting(key: str, check: Callable[[Any], Any], default: Any) -> Any:
    return field(default=default, metadata={"key": PREFIX + key, "check": check})


@dataclass(frozen=True, slots=True)
class FlowSettings:
    """All settings of a flow with their defaults.

    - ``name``: what the flow is called in Spark's UI and in errors.
    - ``hosts``: tasks that run operators; half of the session's slots unless given.
    - ``workers``: workers of each operator, over all hosts; two for each host unless given.
    - ``queue_bytes``: rows that may wait in the memory of one host before they go to disk.
    - ``spill``: whether they may go to disk; if not, senders wait.
    - ``spill_limit_bytes``: the most that one host may write to disk; as much as there is unless given.
    - ``combine``: whether senders aggregate what they can before they send it.
    - ``strategy``: how load moves between workers: reshape, reshape-paper (as published, future rows only), flux,
      flow-join, pkg (partial key grouping), none.
    - ``eta``, ``tau``, ``adaptive_tau``, ``warmup_s``, ``helpers``, ``backlog``, ``first_phase``, ``metric``,
      ``model``, ``half_life``, ``window_rows``, ``horizon_rows``: parameters of the strategy (see
      reshape.control.settings). None is needed: what is not given is derived from what is observed.
    - ``fixed_helpers``: only these workers are relieved, by these helpers ("0: 10 11, 6: 4"), for experiments.
    - ``cost_s_per_row``: emulated cost of a row in every operator, for experiments. ``control_delay_s``: control
      messages take so long, each way.
    - ``report_s``: tasks report so often, and as often the strategy looks at what they say.
    - ``event_log``: a directory for a file of JSON lines per run: every report and every decision.
    - ``tls_certificate``, ``tls_key``, ``tls_authority``: PEM files on the driver. Given, all connections of the flow
      are encrypted. ``tls_name`` is the name in the certificate. The key travels to the tasks with the job, so let
      Spark encrypt its own connections too (spark.network.crypto.enabled).
    """

    name: str = _setting("name", _text, "flow")
    hosts: int | None = _setting("hosts", _count(MOST_WORKERS), None)
    workers: int | None = _setting("workers", _count(MOST_WORKERS), None)
    queue_bytes: int = _setting("queueMemory", _size, 256 * 1024 * 1024)
    spill: bool = _setting("spill", _flag, True)
    spill_limit_bytes: int | None = _setting("spillLimit", _size, None)
    combine: bool = _setting("combine", _flag, True)
    strategy: str = _setting("strategy", _one_of(STRATEGIES), "reshape")
    eta: float | None = _setting("eta", _number(1e-9, _ROWS), None)
    tau: float | None = _setting("tau", _number(1e-9, _ROWS), None)
    adaptive_tau: bool | None = _setting("adaptiveTau", _flag, None)
    warmup_s: float | None = _setting("warmup", _number(0.0, _SECONDS), None)
    helpers: int | None = _setting("helpers", _count(MOST_WORKERS), None)
    backlog: bool | None = _setting("backlog", _flag, None)
    first_phase: str | None = _setting("firstPhase", _one_of([phase.value for phase in FirstPhase]), None)
    metric: str | None = _setting("metric", _one_of(METRICS), None)
    model: str | None = _setting("model", _one_of(("mean", "recency")), None)
    half_life: float | None = _setting("halfLife", _number(1e-9, "a number of windows, more than 0"), None)
    window_rows: int | None = _setting("windowRows", _count(2**62), None)
    horizon_rows: int | None = _setting("horizonRows", _count(2**62), None)
    fixed_helpers: str | None = _setting("fixedHelpers", _pairs, None)
    cost_s_per_row: float = _setting("costPerRow", _number(0.0, _SECONDS), 0.0)
    control_delay_s: float = _setting("controlDelay", _number(0.0, _SECONDS), 0.0)
    report_s: float = _setting("reportInterval", _number(0.02, "a number of seconds, 0.02 or more"), REPORT_S)
    event_log: str | None = _setting("eventLog", _text, None)
    tls_certificate: str | None = _setting("tls.certificate", _text, None)
    tls_key: str | None = _setting("tls.key", _text, None)
    tls_authority: str | None = _setting("tls.authority", _text, None)
    tls_name: str = _setting("tls.name", _text, "reshape")

    def mitigation(self) -> Balancing:
        """The strategy with its parameters: those of the strategy itself where none is given."""
        names = ["eta", "tau", "warmup_s", "helpers", "backlog", "metric", "model", "half_life"]
        names += ["window_rows", "horizon_rows"]
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.first_phase is not None:
            given["first_phase"] = FirstPhase(self.first_phase)
        if self.fixed_helpers is not None:
            pairs = (pair.split(":") for pair in self.fixed_helpers.split(","))
            given["fixed_helpers"] = {int(worker): tuple(map(int, helpers.split())) for worker, helpers in pairs}
        if self.adaptive_tau is not None:
            given["adaptive"] = AdaptiveTau() if self.adaptive_tau else None
        known = replace(STRATEGIES[self.strategy].defaults(), **given)
        return Balancing(self.strategy, known, self.control_delay_s)

    def tls(self) -> Tls | None:
        """The certificate and its key, read from their files; None when connections are not encrypted."""
        names = ("tls_certificate", "tls_key", "tls_authority")
        paths = {name: getattr(self, name) for name in names}
        given = [name for name in names if paths[name] is not None]
        if not given:
            return None
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


# What one operator of a flow can have of its own.
TUNABLE = (
    *("strategy", "eta", "tau", "adaptive_tau", "warmup_s", "helpers", "backlog", "first_phase", "metric", "model"),
    *("half_life", "window_rows", "horizon_rows", "fixed_helpers", "cost_s_per_row"),
)

_FIELDS = {f.name: f for f in fields(FlowSettings)}
_NAMES = {f.metadata["key"]: f.name for f in fields(FlowSettings)}


def checked_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a flow, each of its type. None stands for the default. Raises `SettingError`."""
    unknown = [name for name in options if name not in _FIELDS]
    if unknown:
        raise SettingError(f"there is no option {unknown[0]!r}{_meant(unknown[0], _FIELDS)}; {_listed(_FIELDS)}")
    return {name: _checked(name, name, value) for name, value in options.items() if value is not None}


def settings_of(spark: SparkSession, options: Mapping[str, Any]) -> FlowSettings:
    """The settings of a flow in this session."""
    found: dict[str, Any] = {}
    for key, value in sorted(spark.conf.getAll.items()):
        if not key.startswith(PREFIX):
            continue
        name = _NAMES.get(key)
        if name is None:
            raise SettingError(f"there is no setting {key}{_meant(key, _NAMES)}; {_listed(_NAMES)}")
        found[name] = _checked(name, key, value)
    settings = FlowSettings(**{**found, **checked_options(options)})
    if settings.hosts is not None and settings.workers is not None and settings.workers < settings.hosts:
        raise SettingError(
            f"workers = {settings.workers} is less than hosts = {settings.hosts}; each host needs a worker of its own: "
            "give more workers or fewer hosts"
        )
    return settings


def _checked(name: str, shown: str, value: Any) -> Any:
    try:
        return _FIELDS[name].metadata["check"](value)
    except ValueError as error:
        raise SettingError(f"{shown} = {value!r} is not possible; it must be {error}") from None


def _both(name: str) -> str:
    return f"{name} ({_FIELDS[name].metadata['key']})"


def _meant(name: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f" (did you mean {near[0]}?)" if near else ""


def _listed(known: Mapping[str, Any]) -> str:
    return f"there are {', '.join(known)}"
