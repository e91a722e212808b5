"""Draws the figure of an experiment. The only place that needs matplotlib."""

from __future__ import annotations

from importlib.util import find_spec
from math import nan
from pathlib import Path
from typing import Any

from reshape.control.errors import ParameterError, require
from reshape.sim.experiments.experiment import Panel

FORMATS = (".png", ".svg")
WIDTH, HEIGHT = 7.0, 4.2  # inches per panel
# Colours that people with any colour vision can tell apart (Okabe and Ito), dashes once they repeat.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000")
DASHES = ("-", "--", ":", "-.")


def check_plot_file(file: str) -> Path:
    """The path to draw to, or an error before any work is done."""
    path = Path(file)
    require(path.suffix.lower() in FORMATS, "--plot", file, f"a file name that ends in {' or '.join(FORMATS)}")
    require(path.parent.is_dir(), "--plot", file, f"there is no directory {path.parent}")
    if find_spec("matplotlib") is None:
        raise ParameterError("--plot", file, "drawing needs matplotlib: pip install 'reshape[plot]'")
    return path


def draw(title: str, panels: list[Panel], path: Path) -> None:
    """One figure with the panels side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH * len(panels), HEIGHT), layout="constrained")
    figure.suptitle(title)
    for index, panel in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), index + 1)
        axes.set_title(panel.title)
        axes.set_xlabel(panel.x)
        axes.set_ylabel(panel.y)
        axes.grid(axis="y", alpha=0.3)
        if panel.lines:
            _lines(axes, panel)
        elif panel.candles:
            _candles(axes, panel)
        else:
            _bars(axes, panel)
        if panel.at is not None:
            axes.axhline(panel.at, color="black", linewidth=0.8, linestyle=":")
    figure.savefig(path, dpi=120)


def _lines(axes: Any, panel: Panel) -> None:
    for index, (label, (xs, ys)) in enumerate(panel.lines.items()):
        style = DASHES[index // len(COLOURS) % len(DASHES)]
        values = [nan if y is None else y for y in ys]
        axes.plot(xs, values, style, color=COLOURS[index % len(COLOURS)], label=label, linewidth=1.6)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize="small")


def _bars(axes: Any, panel: Panel) -> None:
    labels = list(panel.bars)
    heights = [value or 0.0 for value in panel.bars.values()]
    bars = axes.bar(range(len(labels)), heights, color=COLOURS[0])
    if len(labels) <= 16:
        axes.bar_label(bars, fmt="%.3g", fontsize="x-small")
    _name_ticks(axes, labels)


def _candles(axes: Any, panel: Panel) -> None:
    for index, candle in enumerate(panel.candles.values()):
        axes.vlines(index, candle["min"], candle["max"], color="black", linewidth=1)
        body = candle["p75"] - candle["p25"]
        axes.bar(index, body, 0.5, bottom=candle["p25"], color=COLOURS[5], edgecolor="black")
        axes.hlines(candle["median"], index - 0.25, index + 0.25, color="black", linewidth=2)
    axes.set_ylim(0, 1)
    _name_ticks(axes, list(panel.candles))


def _name_ticks(axes: Any, labels: list[str]) -> None:
    axes.set_xticks(range(len(labels)), labels, fontsize="small")
    if sum(map(len, labels)) > 60:
        axes.tick_params(axis="x", rotation=45)
        for tick in axes.get_xticklabels():
            tick.set_horizontalalignment("right")
