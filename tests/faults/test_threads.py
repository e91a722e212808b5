"""Hundreds of runs over threads, each with another fault: the exact result, or the error that names what went wrong, in
time, and nothing is left.

``RESHAPE_FAULT_RUNS=1000`` makes it a long form: the same runs and more.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from .flows import prepared
from .plan import KINDS, Case, Channel, Fault, Kind, Place, cases
from .running import Remains, run

RUNS = int(os.environ.get("RESHAPE_FAULT_RUNS", "200"))
# Runs of the long form that have shown something.
FOUND = [Case(1_353, "files", Fault(Kind.GONE, Place(Channel.ORDER, "ReadSource"), 1))]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.mark.filterwarnings("ignore:(?s).*was killed:pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("case", [*cases(RUNS), *FOUND], ids=str)
def test_a_fault(case: Case, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    flow = prepared(case.flow, files)
    remains = Remains(tmp_path)
    outcome, injector = run(flow, case.fault)
    remains.check()
    assert injector.struck.is_set(), f"it had no chance: {injector.seen}"
    if case.fault.error is None:
        assert outcome.error is None, f"{outcome.error!r} after {outcome.tries} tries"
    elif outcome.error is not None:
        assert re.search(case.fault.error, str(outcome.error)), outcome.error
    else:  # hosts that have got the last order need the driver no more
        assert case.fault.kind is Kind.DRIVER_GONE


def test_the_runs_of_every_build_have_each_kind_of_fault_at_each_kind_of_message() -> None:
    seen = {(case.fault.kind, case.fault.place) for case in cases(200)}
    assert {kind for kind, _ in seen} == set(Kind)
    places: dict[Place, set[Kind]] = {}
    for case in cases(1_000):
        places.setdefault(case.fault.place, set()).add(case.fault.kind)
    assert all(len(kinds) >= len(KINDS[place.channel]) - 1 for place, kinds in places.items())
