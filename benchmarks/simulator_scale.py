"""How long the simulator takes for 10,000 workers and 10^11 rows (budget: two minutes on one core)."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from reshape.control.profile import OperatorProfile
from reshape.control.strategies import build
from reshape.datasets.tpc import zipf_keys
from reshape.sim.scenario import InputPhase, Scenario, Source, Stage
from reshape.sim.simulation import simulate

KEYS_PER_WORKER = 2
EXPONENT = 0.5  # the first key then has about seventy times a worker's fair part
INPUT_S = 60.0
BUDGET_S = 120.0


def measure(workers: int, rows: int, strategy: str) -> dict[str, float | int | str]:
    keys = zipf_keys(KEYS_PER_WORKER * workers, EXPONENT, rows, workers, apart=KEYS_PER_WORKER * workers)
    profile = OperatorProfile("join", workers)
    # On average a worker needs twice the time of the input, so that queues fill everywhere.
    stage = Stage(profile, rows / workers / (2 * INPUT_S))
    source = Source((InputPhase(keys),), rows / INPUT_S)
    scenario = Scenario(source, (stage,), tick_s=0.5, report_s=2.0, display_s=2.0)
    began = time.perf_counter()
    (run,) = simulate(scenario, build(strategy, profile))
    seconds = time.perf_counter() - began
    return {
        "strategy": strategy,
        "workers": workers,
        "rows": run.rows,
        "seconds": round(seconds, 2),
        "virtual_s": round(run.total_s, 1),
        "decisions": len(run.decisions),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1,000 workers and 10^10 rows")
    parser.add_argument("--json", metavar="FILE", help="write the results to a file as well")
    arguments = parser.parse_args()
    workers, rows = (1_000, 10**10) if arguments.quick else (10_000, 10**11)
    results = []
    for strategy in ("none", "reshape-paper", "reshape"):
        result = measure(workers, rows, strategy)
        results.append(result)
        print(
            f"{strategy:14} {workers:>6,} workers {rows:.0e} rows: {result['seconds']:>7} s of wall time "
            f"for {result['virtual_s']} s of virtual time, {result['decisions']} decisions",
            flush=True,
        )
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({"benchmark": "simulator_scale", "results": results}, indent=2))
    return 0 if all(float(result["seconds"]) < BUDGET_S for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
