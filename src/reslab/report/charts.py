"""Figures as plain data that plotly draws, and the words that go with them. Nothing is drawn here.

A `Chart` has panels side by side (plain, residual) and variants one can switch between. A trace's
`meta` says its series and role; the page's script colours it for light or dark ground by that.
The builders are in curves.py, gradients.py and deepening.py.
"""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reslab.report.palette import light_colour

__all__ = [
    "Chart",
    "Figure",
    "LegendEntry",
    "Panel",
    "axis",
    "figure",
    "kind_title",
    "line_trace",
    "nice_ceiling",
    "plain_text",
]

Figure = dict[str, Any]

_KIND_TITLES = {"resnet": "Residual nets"}


@dataclass(frozen=True)
class LegendEntry:
    """One switch of the legend: it shows and hides all traces of `group`."""

    group: str
    label: str
    series: int
    style: str  # "bold", "thin" or "dashed": how the line is drawn


@dataclass(frozen=True)
class Panel:
    """One set of axes: `figures` holds a plotly figure a variant, `label` says it in words."""

    key: str
    title: str
    label: str
    legend: tuple[LegendEntry, ...]
    figures: dict[str, Figure]


@dataclass(frozen=True)
class Chart:
    """Panels side by side; `variants` are (key, label) of the views one can switch between."""

    key: str
    panels: tuple[Panel, ...]
    variants: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()


def plain_text(text: str) -> str:
    """Text that plotly shows as it is: it would read tags, links among them, in any label.

    >>> plain_text("<b>")
    '&lt;b&gt;'
    """
    return html.escape(text, quote=False)


def kind_title(kind: str) -> str:
    """What a panel of one kind of net is headed with.

    >>> kind_title("resnet"), kind_title("highway")
    ('Residual nets', 'Highway nets')
    """
    return _KIND_TITLES.get(kind, f"{kind[:1].upper()}{kind[1:]} nets")


def figure(traces: Sequence[dict[str, Any]], *, x: dict[str, Any], y: dict[str, Any]) -> Figure:
    """A plotly figure of these traces and axes; size and colours are the page's business."""
    layout = {
        "xaxis": x,
        "yaxis": y,
        "showlegend": False,
        "hovermode": "x unified",
        "margin": {"l": 56, "r": 12, "t": 12, "b": 48},
    }
    return {"data": list(traces), "layout": layout}


def axis(title: str, **settings: Any) -> dict[str, Any]:
    """An axis with its title; further plotly settings as they are."""
    return {"title": {"text": title, "standoff": 10}, "automargin": True, **settings}


def line_trace(
    points: Sequence[tuple[float, float]],
    *,
    entry: LegendEntry,
    name: str,
    hover: str = "%{y:.2f} %",
) -> dict[str, Any]:
    """One line through (x, y) points in the colour and style of its legend entry."""
    width = 2.75 if entry.style == "bold" else 1.25
    return {
        "type": "scatter",
        "mode": "lines+markers" if entry.style == "bold" and len(points) <= 40 else "lines",
        "name": plain_text(name),
        "legendgroup": entry.group,
        "x": [x for x, _ in points],
        "y": [y for _, y in points],
        "line": {
            "width": width,
            "color": light_colour(entry.series),
            "dash": "4px,3px" if entry.style == "dashed" else "solid",
        },
        "marker": {"size": 5},
        "hovertemplate": f"{hover}<extra>%{{fullData.name}}</extra>",
        "meta": {"series": entry.series, "role": "line"},
    }


def nice_ceiling(value: float) -> float:
    """The first round number from `value` up: an axis that ends there has readable ticks.

    >>> [nice_ceiling(v) for v in (0.3, 3.2, 27.0, 71.5)]
    [0.3, 4.0, 30.0, 80.0]
    """
    if value <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(value))
    steps = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
    return round(next(unit * step for step in steps if unit * step >= value * (1 - 1e-9)), 9)
