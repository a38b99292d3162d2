"""The gradient figure: norm of each layer's gradient from the first layer to the last.

He 2015, section 4.1, holds that plain nets do not fail by vanishing gradients; this shows it.
"""

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from reslab.report.arms import ArmGroup, mean_norms, series_of
from reslab.report.charts import (
    Chart,
    Figure,
    LegendEntry,
    Panel,
    axis,
    figure,
    kind_title,
    line_trace,
    plain_text,
)
from reslab.report.numbers import format_number

__all__ = ["gradient_chart"]

_MOMENTS = (
    ("gradients_start", "at the start", "dashed"),
    ("gradients_end", "at the end", "bold"),
)
_QUANTITIES = (("norm", "Gradient norm"), ("relative", "Relative to the weights"))
_PLACES = {
    "tickvals": [0, 0.5, 1],
    "ticktext": ["first", "middle of the net", "last"],
    "hoverformat": ".0%",
    "unifiedhovertitle": {"text": "%{x} of the way to the last layer"},
}
_AXES = {"norm": "gradient norm", "relative": "gradient norm / weight norm"}


def gradient_chart(groups: Sequence[ArmGroup]) -> Chart | None:
    """One panel a kind of net, layers by their place in the net; None when nothing was measured."""
    series = series_of(groups)
    measured = [g for g in groups if any(r.gradients_start or r.gradients_end for r in g.runs)]
    if not measured:
        return None
    by_kind = groupby(measured, key=lambda group: group.kind)
    spans = {quantity: _span(measured, quantity) for quantity, _ in _QUANTITIES}
    panels = tuple(_panel(kind, tuple(mine), series, spans) for kind, mine in by_kind)
    return Chart("gradients", panels, _QUANTITIES, _notes(measured))


def _span(groups: Sequence[ArmGroup], quantity: str) -> list[float]:
    """Exponents of ten that hold all means of all panels, so that panels can be compared."""
    measured = ([getattr(r, moment) for r in g.runs] for g in groups for moment, _, _ in _MOMENTS)
    means = [mean for layers in measured for _, mean in mean_norms(layers, quantity) if mean > 0]
    exponents = [math.log10(mean) for mean in means] or [0.0]
    return [min(exponents) - 0.2, max(exponents) + 0.2]


def _panel(
    kind: str,
    groups: tuple[ArmGroup, ...],
    series: dict[str, int],
    spans: dict[str, list[float]],
) -> Panel:
    entries = [
        (group, moment, LegendEntry(label, label, series[group.name], style))
        for group in groups
        for moment, word, style in _MOMENTS
        if any(getattr(run, moment) for run in group.runs)
        for label in [f"{group.name} {word}"]
    ]
    figures = {quantity: _figure(entries, quantity, spans[quantity]) for quantity in spans}
    legend = tuple(entry for _, _, entry in entries)
    return Panel(f"gradients-{kind}", kind_title(kind), _in_words(kind, entries), legend, figures)


def _figure(
    entries: Sequence[tuple[ArmGroup, str, LegendEntry]], quantity: str, span: list[float]
) -> Figure:
    traces = []
    for group, moment, entry in entries:
        layers = mean_norms([getattr(run, moment) for run in group.runs], quantity)
        last = max(len(layers) - 1, 1)
        points = [(index / last, norm) for index, (_, norm) in enumerate(layers)]
        trace = line_trace(points, entry=entry, name=entry.label, hover="%{y:.3~g}, %{text}")
        trace |= {"mode": "lines", "text": [plain_text(name) for name, _ in layers]}
        trace["line"]["width"] = 2
        # A log axis has no place for zero; None leaves a gap, and the notes count them.
        trace["y"] = [norm if norm > 0 else None for norm in trace["y"]]
        traces.append(trace)
    return figure(
        traces,
        x=axis("layer, from input to output", range=[-0.015, 1.015], **_PLACES),
        y=_log(quantity, span),
    )


def _log(quantity: str, span: list[float]) -> dict[str, Any]:
    # A tick every decade, or fewer where the gradients span many.
    step = max(1, round((span[1] - span[0]) / 6))
    return axis(_AXES[quantity], type="log", exponentformat="power", dtick=step, range=span)


def _in_words(kind: str, entries: Sequence[tuple[ArmGroup, str, LegendEntry]]) -> str:
    parts = []
    for group, moment, entry in entries:
        layers = mean_norms([getattr(run, moment) for run in group.runs], "norm")
        if layers:
            first, last = format_number(layers[0][1]), format_number(layers[-1][1])
            parts.append(f"{entry.label}: {first} in the first layer, {last} in the last")
    return f"{kind_title(kind)}, gradient norm by layer. {'; '.join(parts)}."


def _notes(groups: Sequence[ArmGroup]) -> tuple[str, ...]:
    layers = [
        layer
        for group in groups
        for run in group.runs
        for layer in (*run.gradients_start, *run.gradients_end)
    ]
    zeros = sum(layer.norm == 0 for layer in layers)
    notes = ["Dashed: before training. Solid: after it. Means over seeds, on a logarithmic scale."]
    if zeros:
        notes.append(f"{zeros} of {len(layers)} measured norms are exactly zero and not drawn.")
    return tuple(notes)
