"""The main figure as a still: PNG and SVG with a white ground, for papers and READMEs.

Same curves, colours and scale as the page's figure. matplotlib is imported only when one is drawn,
and only its canvas-free parts: no window system, no global state.
"""

import contextlib
import io
import warnings
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from reslab.report.arms import ArmGroup
from reslab.report.charts import kind_title
from reslab.report.curves import Curve, error_limit, measured_curves
from reslab.report.palette import light_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_still"]

_STYLE: Any = {
    "font.size": 11.5,
    "axes.edgecolor": "#8a8f98",
    "axes.labelcolor": "#3b4048",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlesize": 12.5,
    "xtick.color": "#5a606a",
    "ytick.color": "#5a606a",
    "text.color": "#1c2026",
    "grid.color": "#e4e6ea",
    "text.parse_math": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "reslab",
}
_INCHES_A_PANEL, _HEIGHT, _DPI = 5.2, 4.3, 160


def draw_still(groups: Sequence[ArmGroup], *, note: str) -> tuple[bytes, bytes]:
    """PNG and SVG bytes of the error curves, one panel a kind; `note` is the line under them."""
    import matplotlib

    with matplotlib.rc_context(_STYLE), _missing_glyphs_allowed():
        drawn = _draw(measured_curves(groups), note)
        return (
            _saved(drawn, format="png", dpi=_DPI, metadata={"Software": None}),
            _saved(drawn, format="svg", metadata={"Date": None}),
        )


@contextlib.contextmanager
def _missing_glyphs_allowed() -> Iterator[None]:
    # A data folder may be named in a script that the font lacks; boxes are then fine.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield


def _saved(drawn: "Figure", **settings: Any) -> bytes:
    buffer = io.BytesIO()
    drawn.savefig(buffer, facecolor="white", **settings)
    return buffer.getvalue()


def _draw(curves: Sequence[Curve], note: str) -> "Figure":
    from matplotlib.figure import Figure

    kinds = [(kind, tuple(mine)) for kind, mine in groupby(curves, key=lambda c: c.group.kind)]
    width = max(2, len(kinds)) * _INCHES_A_PANEL
    drawn = Figure(figsize=(width, _HEIGHT), layout="constrained")
    drawn.supxlabel(note, fontsize=10, color="#5a606a", x=0.01, ha="left")
    if not kinds:
        drawn.text(0.5, 0.5, "No curves were recorded.", ha="center")
        return drawn
    panels = drawn.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
    for (kind, mine), panel in zip(kinds, panels, strict=True):
        _draw_panel(panel, mine, kind_title(kind))
    panels[0].set_ylabel("error (%)")
    limit = error_limit(curves)
    panels[0].set_ylim(-0.012 * limit, limit)
    return drawn


def _draw_panel(panel: "Axes", curves: Sequence[Curve], title: str) -> None:
    lines = [_draw_curve(panel, curve) for curve in curves]
    panel.set_title(title)
    panel.set_xlabel("iterations")
    panel.set_xlim(left=0)
    panel.grid(axis="y")
    panel.set_axisbelow(True)
    # Below the axes, since curves may end at any height inside them.
    panel.legend(
        lines,
        [_legend_text(curve) for curve in curves],
        loc="upper center",
        bbox_to_anchor=(0.5, -0.17),
        ncols=2,
        frameon=False,
    )


def _draw_curve(panel: "Axes", curve: Curve) -> Any:
    steps = [step for step, _ in curve.points]
    colour, bold = light_colour(curve.entry.series), curve.entry.style == "bold"
    low, high = zip(*((spread.low, spread.high) for _, spread in curve.points), strict=True)
    panel.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0)
    means = [spread.mean for _, spread in curve.points]
    (line,) = panel.plot(steps, means, color=colour, linewidth=2.6 if bold else 1.1)
    return line


def _legend_text(curve: Curve) -> str:
    # matplotlib drops entries that begin with an underscore.
    return curve.entry.label.removeprefix("_")
