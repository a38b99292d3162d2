"""The main figure, in the manner of He 2015, Fig. 6: error over iterations, plain beside residual.

Thin is training error, bold is test error; a depth has one colour in both panels.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from reslab.records import ArmResult
from reslab.report.arms import ArmGroup, Spread, mean_curve, series_of
from reslab.report.charts import (
    Chart,
    Figure,
    LegendEntry,
    Panel,
    axis,
    figure,
    kind_title,
    line_trace,
    nice_ceiling,
)
from reslab.report.numbers import format_error
from reslab.report.palette import light_colour

__all__ = ["Curve", "error_chart", "error_limit", "measured_curves"]

_QUANTITIES = (("train_error", "training", "thin"), ("test_error", "test", "bold"))


@dataclass(frozen=True)
class Curve:
    """One quantity of one arm over training; `points` are (iteration, spread over seeds)."""

    group: ArmGroup
    quantity: str
    entry: LegendEntry
    points: tuple[tuple[int, Spread], ...]


def measured_curves(groups: Sequence[ArmGroup]) -> tuple[Curve, ...]:
    """Training and test curve of each arm, those without points left out."""
    series = series_of(groups)
    curves = (_curve(group, series[group.name], *q) for group in groups for q in _QUANTITIES)
    return tuple(curve for curve in curves if curve.points)


def _curve(group: ArmGroup, series: int, quantity: str, word: str, style: str) -> Curve:
    label = f"{group.name} {word}"
    return Curve(
        group, quantity, LegendEntry(label, label, series, style), mean_curve(group, quantity)
    )


def error_limit(curves: Sequence[Curve]) -> float:
    """Where the error axis ends, percent: above everything after the first quarter of training.

    Every net starts near chance; an axis made for that start would press the end, which the
    argument is about, onto the floor. At most 100, and at least 5.
    """
    late = [s.high for c in curves for step, s in c.points if step >= c.points[-1][0] / 4]
    return min(100.0, nice_ceiling(max([1.05 * value for value in late] + [5.0])))


def error_chart(groups: Sequence[ArmGroup]) -> Chart | None:
    """One panel a kind of net, all on the same scale; None when no arm has a curve."""
    curves = measured_curves(groups)
    if not curves:
        return None
    limit = error_limit(curves)
    several = any(spread.count > 1 for curve in curves for _, spread in curve.points)
    variants = (("mean", "Mean and range"), ("seeds", "Every seed")) if several else ()
    by_kind = groupby(curves, key=lambda curve: curve.group.kind)
    panels = tuple(_panel(kind, tuple(mine), limit, several) for kind, mine in by_kind)
    return Chart("errors", panels, variants, _notes(curves, limit, several))


def _panel(kind: str, curves: tuple[Curve, ...], limit: float, several: bool) -> Panel:
    figures = {"mean": _figure(_mean_traces(curves), limit)}
    if several:
        figures["seeds"] = _figure(_seed_traces(curves), limit)
    legend = tuple(curve.entry for curve in curves)
    return Panel(f"errors-{kind}", kind_title(kind), _in_words(kind, curves), legend, figures)


def _figure(traces: Iterable[dict[str, Any]], limit: float) -> Figure:
    # A hair below zero, or a curve at 0 % would be half hidden by the axis.
    y = axis("error (%)", range=[-0.012 * limit, limit], zeroline=True)
    x = axis("iterations", rangemode="tozero", unifiedhovertitle={"text": "iteration %{x}"})
    return figure(list(traces), x=x, y=y)


def _mean_traces(curves: Sequence[Curve]) -> list[dict[str, Any]]:
    bands = [_band(c) for c in curves if any(s.count > 1 for _, s in c.points)]
    return bands + [_mean_line(curve) for curve in curves]


def _mean_line(curve: Curve) -> dict[str, Any]:
    points = [(step, spread.mean) for step, spread in curve.points]
    several = any(spread.count > 1 for _, spread in curve.points)
    hover = "%{y:.2f} % (%{customdata[0]:.2f} to %{customdata[1]:.2f})"
    trace = line_trace(points, entry=curve.entry, name=curve.entry.label)
    if several:
        trace["customdata"] = [[spread.low, spread.high] for _, spread in curve.points]
        trace["hovertemplate"] = f"{hover}<extra>%{{fullData.name}}</extra>"
    return trace


def _band(curve: Curve) -> dict[str, Any]:
    steps = [step for step, _ in curve.points]
    low, high = zip(*((spread.low, spread.high) for _, spread in curve.points), strict=True)
    return {
        "type": "scatter",
        "mode": "lines",
        "fill": "toself",
        "hoverinfo": "skip",
        "legendgroup": curve.entry.group,
        "x": steps + steps[::-1],
        "y": [*high, *low[::-1]],
        "line": {"width": 0},
        "fillcolor": light_colour(curve.entry.series),
        "opacity": 0.2,
        "meta": {"series": curve.entry.series, "role": "band"},
    }


def _seed_traces(curves: Sequence[Curve]) -> list[dict[str, Any]]:
    return [
        _seed_line(points, curve, run.seed)
        for curve in curves
        for run in curve.group.runs
        if (points := [(step, s.mean) for step, s in _alone(run, curve)])
    ]


def _seed_line(points: list[tuple[int, float]], curve: Curve, seed: int) -> dict[str, Any]:
    trace = line_trace(points, entry=curve.entry, name=f"{curve.entry.label}, seed {seed}")
    trace["line"]["width"] *= 0.6  # several lie on top of each other
    return trace


def _alone(run: ArmResult, curve: Curve) -> tuple[tuple[int, Spread], ...]:
    return mean_curve(ArmGroup(run.name, (run,)), curve.quantity)


def _in_words(kind: str, curves: Sequence[Curve]) -> str:
    ends = "; ".join(
        f"{curve.entry.label} error ends at {format_error(curve.points[-1][1].mean)} %"
        for curve in curves
    )
    return f"{kind_title(kind)}, error in percent over iterations: {ends}."


def _notes(curves: Sequence[Curve], limit: float, several: bool) -> tuple[str, ...]:
    notes = ["Thin: training error, a running figure over mini-batches. Bold: test error."]
    if several:
        notes.append("Lines are means over seeds; the band spans the lowest and the highest seed.")
    if any(spread.high > limit for curve in curves for _, spread in curve.points):
        notes.append(f"The axis ends at {limit:g} %; the first iterations lie above it.")
    return tuple(notes)
