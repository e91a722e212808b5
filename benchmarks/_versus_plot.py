"""Pictures of `versus_spark.py`. The only place of the benchmarks that needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from _versus_measure import FLOW, NO_EXCHANGE, NONE


def _there(file: Path) -> bool:
    if find_spec("matplotlib") is not None:
        return True
    print(f"{file} is not drawn: that needs matplotlib (pip install 'reshape[plot]')", flush=True)
    return False


def plot_ratios(file: Path, results: Mapping[str, Any]) -> None:
    """A panel for each data set: how many times as fast as the faster of Spark's ways, with quartiles."""
    if not _there(file) or not results:
        return
    from matplotlib.figure import Figure

    sets: dict[str, list[str]] = {}
    for name in results:
        sets.setdefault(name.rpartition("@")[2], []).append(name)
    heights = [len(names) + 1 for names in sets.values()]
    figure = Figure(figsize=(9, 1.5 + 0.45 * sum(heights)), layout="constrained")
    panels = figure.subplots(len(sets), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for panel, (data_set, names) in zip(panels, sets.items(), strict=True):
        for shift, way, colour in ((-0.25, FLOW, "C0"), (0.0, NO_EXCHANGE, "C2"), (0.25, NONE, "0.6")):
            points = [
                (place + shift, *results[name]["ratios"][way])
                for place, name in enumerate(names)
                if way in results[name]["ratios"]
            ]
            if points:
                at, middles, lows, highs = zip(*points, strict=True)
                panel.hlines(at, lows, highs, color=colour)
                panel.plot(middles, at, "o", color=colour, label=way)
        panel.axvline(1, color="black", linewidth=0.8)
        panel.set_xscale("log")
        for axis_formatter in (panel.xaxis.set_major_formatter, panel.xaxis.set_minor_formatter):
            axis_formatter("{x:g}")
        panel.set_yticks(range(len(names)), [name.rpartition("@")[0] for name in names])
        panel.set_ylim(len(names) - 0.5, -0.5)
        panel.set_title(data_set, loc="left")
    panels[0].legend()
    panels[-1].set_xlabel("times as fast as the faster of Spark's two ways")
    figure.savefig(file)


def plot_scaling(file: Path, results: Mapping[str, Any]) -> None:
    """A panel for each work: CPU seconds per million rows over rows, a line for each number of workers a host."""
    if not _there(file):
        return
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    panels = figure.subplots(1, len(results), sharey=True, squeeze=False)[0]
    for panel, (work, curves) in zip(panels, results.items(), strict=True):
        for label, points in curves.items():
            rows = [float(each) / 1e6 for each in points]
            panel.plot(rows, list(points.values()), "o-", label=label)
        panel.set_xscale("log")
        panel.set_xticks(rows, [f"{each:g}" for each in rows])
        panel.minorticks_off()
        panel.set_xlabel("million rows")
        panel.set_title(work)
    panels[0].set_ylabel("CPU seconds per million rows")
    panels[0].legend()
    figure.savefig(file)
