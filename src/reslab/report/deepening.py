"""The deepening figure: a deeper plain net that is as good by construction, and one trained.

He 2015, section 1: the trained shallow net with identity layers put in is a solution of the deeper
net, so a higher training error is a failure of the search, not of what the net can express.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reslab.records import DeepenedResult
from reslab.report.arms import Spread, spread_of
from reslab.report.charts import Chart, Figure, Panel, axis, figure, nice_ceiling, plain_text
from reslab.report.numbers import format_error, format_spread
from reslab.report.palette import light_colour

__all__ = ["Deepening", "deepening_chart", "group_deepened"]

_SERIES = (0, 2, 1)  # colours of the three bars; first and last are those of the two depths


@dataclass(frozen=True)
class Deepening:
    """One source net deepened to one depth, over seeds; errors are training errors, percent."""

    source: str
    depth_before: int
    depth_after: int
    results: tuple[DeepenedResult, ...]

    @property
    def added(self) -> int:
        """Identity layers put in."""
        return self.depth_after - self.depth_before

    @property
    def largest_logit_change(self) -> float | None:
        """The largest change of any logit, over all seeds."""
        spread = spread_of(result.largest_logit_change for result in self.results)
        return spread.high if spread else None

    @property
    def steps(self) -> tuple[tuple[str, str, Spread | None], ...]:
        """(what, how it came about, training error) of source, deepened net and trained rival."""
        before = spread_of(result.train_error_before for result in self.results)
        after = spread_of(result.train_error_after for result in self.results)
        trained = spread_of(result.trained_error for result in self.results)
        return (
            (f"{self.depth_before} layers", "trained", before),
            (f"{self.depth_after} layers", "by construction", after),
            (f"{self.depth_after} layers", "from scratch", trained),
        )


def group_deepened(results: Sequence[DeepenedResult]) -> tuple[Deepening, ...]:
    """The results by source and depths, seeds together."""
    groups: dict[tuple[str, int, int], list[DeepenedResult]] = {}
    for result in results:
        key = (result.source, result.depth_before, result.depth_after)
        groups.setdefault(key, []).append(result)
    return tuple(Deepening(*key, tuple(mine)) for key, mine in sorted(groups.items()))


def deepening_chart(results: Sequence[DeepenedResult]) -> Chart | None:
    """One panel of three bars for each net that was deepened; None without any."""
    groups = group_deepened(results)
    highs = [spread.high for group in groups for _, _, spread in group.steps if spread]
    if not highs:
        return None
    limit = min(100.0, nice_ceiling(max(highs)))
    panels = tuple(_panel(number, group, limit) for number, group in enumerate(groups))
    return Chart("deepening", panels, (), ())


def _panel(number: int, group: Deepening, limit: float) -> Panel:
    title = f"{group.source}, {group.added} identity layers put in"
    words = "; ".join(f"{what} {how}: {format_spread(s)} %" for what, how, s in group.steps)
    label = f"Training error in percent. {words}."
    return Panel(f"deepening-{number}", title, label, (), {"mean": _figure(group, limit)})


def _figure(group: Deepening, limit: float) -> Figure:
    steps = list(enumerate(zip(group.steps, _SERIES, strict=True)))
    bars = [_bar(place, *step, series) for place, (step, series) in steps]
    x = axis("training error (%)", range=[0, limit])
    y = {"range": [2.4, -0.75], "showticklabels": False, "showgrid": False, "zeroline": False}
    made = figure(bars, x=x, y=y)
    made["layout"]["hovermode"] = "closest"
    made["layout"]["margin"] |= {"l": 12, "t": 4}
    made["layout"]["annotations"] = [_label(place, *step) for place, (step, _) in steps]
    return made


def _bar(place: int, what: str, how: str, spread: Spread | None, series: int) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "name": plain_text(f"{what}, {how}"),
        "y": [place],
        "x": [spread.mean if spread else None],
        "width": 0.36,
        "marker": {"color": light_colour(series)},
        "hovertemplate": _hover(spread),
        "meta": {"series": series, "role": "bar"},
    }


def _label(place: int, what: str, how: str, spread: Spread | None) -> dict[str, Any]:
    """What a bar is and how long, above it: beside it a narrow page has no room."""
    return {
        "text": plain_text(f"{what}, {how}: ") + f"<b>{format_spread(spread)} %</b>",
        "x": 0,
        "xref": "paper",
        "xanchor": "left",
        "y": place - 0.2,
        "yanchor": "bottom",
        "showarrow": False,
    }


def _hover(spread: Spread | None) -> str:
    if spread is None:
        return "<extra></extra>"
    low, high = format_error(spread.low), format_error(spread.high)
    seeds = f", {spread.count} seeds from {low} to {high} %" if spread.count > 1 else ""
    return f"{format_error(spread.mean)} %{seeds}<extra></extra>"
