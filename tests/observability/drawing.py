"""Draws the shipped dashboard from what a Prometheus answers: panels where they are, with their
units, legends and thresholds. Not Grafana, but the same queries.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

COLUMNS = 24
ROW_INCHES = 0.33
WIDTH_INCHES = 19.0
BACKGROUND, PANEL, INK, FAINT = "#111217", "#181b1f", "#d8d9da", "#7b7f86"
COLORS = {"green": "#73bf69", "yellow": "#fade2a", "red": "#f2495c", "blue": "#5794f2"}
PALETTE = (
    *("#73bf69", "#f2cc0c", "#8ab8ff", "#ff780a", "#5794f2", "#b877d9", "#705da0", "#56a64b"),
    *("#37872d", "#fade2a", "#447ebc", "#c15c17", "#f2495c"),
)
MOST_IN_LEGEND = 6
LEFT_INCHES = 0.62
"""For the figures beside the lines."""
TIMED = "timed"


class Series(NamedTuple):
    """What one line of a panel shows; a stat has one point. NaN: nothing to show."""

    legend: str
    times: Sequence[float]
    values: Sequence[float]


def draw(dashboard: dict[str, Any], shown: dict[int, list[Series]], path: Path) -> None:
    """`shown`: the series of each panel, by its id. Times are seconds since the start."""
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard["panels"])
    height = (rows + 2) * ROW_INCHES
    figure = pyplot.figure(figsize=(WIDTH_INCHES, height), facecolor=BACKGROUND)
    figure.text(0.008, 1 - 0.45 / height, dashboard["title"], color=INK, fontsize=17, va="center")
    for panel in dashboard["panels"]:
        box = _box(panel["gridPos"], height)
        if panel["type"] == "row":
            figure.text(box[0], box[1] + 0.08 / height, panel["title"], color=INK, fontsize=13)
        else:
            _draw_panel(figure, box, panel, shown[panel["id"]])
    until = max(one.times[-1] for series in shown.values() for one in series)
    for axes in figure.axes:
        if axes.get_label() == TIMED:
            axes.set_xlim(0, until)
    figure.savefig(path, dpi=100, facecolor=BACKGROUND)
    pyplot.close(figure)


def _box(place: dict[str, int], height: float) -> tuple[float, float, float, float]:
    """Left, bottom, width and height as shares of the figure."""
    gap = 0.05
    top = height - (place["y"] + 2) * ROW_INCHES - gap
    return (
        0.004 + place["x"] / COLUMNS * 0.992 + gap / WIDTH_INCHES,
        (top - place["h"] * ROW_INCHES + 2 * gap) / height,
        place["w"] / COLUMNS * 0.992 - 2 * gap / WIDTH_INCHES,
        (place["h"] * ROW_INCHES - 2 * gap) / height,
    )


def _draw_panel(
    figure: Figure,
    box: tuple[float, float, float, float],
    panel: dict[str, Any],
    series: list[Series],
) -> None:
    frame = figure.add_axes(box, facecolor=PANEL)
    frame.set(xticks=[], yticks=[])
    for spine in frame.spines.values():
        spine.set_color("#2c3035")
    height = figure.get_size_inches()[1]
    figure.text(
        box[0] + 0.1 / WIDTH_INCHES,
        box[1] + box[3] - 0.2 / height,
        panel["title"],
        color=INK,
        fontsize=9.5,
        va="center",
    )
    if panel["type"] == "stat":
        _draw_stat(frame, panel, series)
    else:
        inner = (
            box[0] + LEFT_INCHES / WIDTH_INCHES,
            box[1] + 0.68 / height,
            box[2] - (LEFT_INCHES + 0.13) / WIDTH_INCHES,
            box[3] - 1.05 / height,
        )
        _draw_lines(figure.add_axes(inner, facecolor=PANEL, label=TIMED), panel, series)


def _draw_stat(frame: Axes, panel: dict[str, Any], series: list[Series]) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    value = series[0].values[-1] if series else math.nan
    text = "no traffic" if math.isnan(value) else amount(value, defaults["unit"])
    color = _color_of(value, defaults["thresholds"]["steps"])
    frame.text(0.5, 0.4, text, color=color, fontsize=24, ha="center", va="center")


def _draw_lines(axes: Axes, panel: dict[str, Any], series: list[Series]) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    colors = _colors(panel, series)
    if defaults["custom"]["stacking"]["mode"] == "normal" and series:
        _stack(axes, series, colors)
    else:
        for one, color in zip(series, colors, strict=True):
            axes.plot(one.times, one.values, color=color, linewidth=1.3)
            axes.fill_between(one.times, one.values, color=color, alpha=0.07)
    _draw_thresholds(axes, defaults)
    _draw_axes(axes, defaults)
    _draw_legend(axes, defaults["unit"], series, colors)


def _colors(panel: dict[str, Any], series: list[Series]) -> list[str]:
    chosen = {
        override["matcher"]["options"]: COLORS[override["properties"][0]["value"]["fixedColor"]]
        for override in panel["fieldConfig"]["overrides"]
    }
    return [chosen.get(one.legend, PALETTE[n % len(PALETTE)]) for n, one in enumerate(series)]


def _stack(axes: Axes, series: list[Series], colors: list[str]) -> None:
    times = sorted({time for one in series for time in one.times})
    values = [
        [0.0 if math.isnan(known.get(time, math.nan)) else known[time] for time in times]
        for known in (dict(zip(one.times, one.values, strict=True)) for one in series)
    ]
    axes.stackplot(times, values, colors=colors, alpha=0.55)


def _draw_thresholds(axes: Axes, defaults: dict[str, Any]) -> None:
    """Where they are near: a threshold far off would flatten what is shown."""
    if defaults["custom"]["thresholdsStyle"]["mode"] == "off":
        return
    top = axes.get_ylim()[1]
    for step in defaults["thresholds"]["steps"]:
        if step["value"] is not None and step["value"] < 4 * top:
            axes.axhline(step["value"], color=COLORS[step["color"]], linestyle="--", linewidth=1)


def _draw_axes(axes: Axes, defaults: dict[str, Any]) -> None:
    unit, top = defaults["unit"], axes.get_ylim()[1]
    axes.set_ylim(0, max(top, 1e-9) if axes.has_data() else 1)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: amount(value, unit)))
    axes.xaxis.set_major_locator(MultipleLocator(60))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 60:.0f} min"))
    axes.tick_params(colors=FAINT, labelsize=7.5, length=0)
    axes.grid(color="#2c3035", linewidth=0.6)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _draw_legend(axes: Axes, unit: str, series: list[Series], colors: list[str]) -> None:
    """The latest figure beside each name, as in the shipped file; the largest series first."""
    if not series:
        axes.text(0.5, 0.5, "no data", color=FAINT, ha="center", transform=axes.transAxes)
        return
    largest = sorted(zip(series, colors, strict=True), key=lambda pair: -_peak(pair[0]))
    named = [
        (f"{one.legend}: {amount(_latest(one), unit)}", color)
        for one, color in largest[:MOST_IN_LEGEND]
    ]
    lines = [Line2D([], [], color=color, linewidth=3) for _, color in named]
    longest = max(len(text) for text, _ in named)
    axes.legend(
        lines,
        [text for text, _ in named],
        loc="upper left",
        bbox_to_anchor=(-LEFT_INCHES * 0.9 / _inches(axes), -0.13),
        ncols=2 if longest < 34 else 1,
        fontsize=7,
        frameon=False,
        labelcolor=INK,
        handlelength=1.2,
        labelspacing=0.25,
        columnspacing=1.2,
    )


def _inches(axes: Axes) -> float:
    return axes.get_position().width * WIDTH_INCHES


def _peak(series: Series) -> float:
    return max((value for value in series.values if not math.isnan(value)), default=0.0)


def _latest(series: Series) -> float:
    known = [value for value in series.values if not math.isnan(value)]
    return known[-1] if known else math.nan


def _color_of(value: float, steps: list[dict[str, Any]]) -> str:
    reached = [step["color"] for step in steps if step["value"] is None or value >= step["value"]]
    return COLORS[reached[-1]]


def amount(value: float, unit: str) -> str:
    """As a reader says it: 12 ms, 3.4 %, 1.2 k."""
    if math.isnan(value):
        return "–"
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "s":
        return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s"
    if unit == "currencyUSD":
        return f"${value:.3g}"
    suffix = {"ops": "/s", "opm": "/min", "Bps": "B/s"}.get(unit, "")
    return f"{_short(value)} {suffix}".strip()


def _short(value: float) -> str:
    for size, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{sign}"
    return f"{value:.3g}"
