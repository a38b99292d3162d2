"""The report of a study: one page that opens offline, still figures, tables, the record itself.

    reslab study degradation     # ends with studies/degradation-digits/index.html

Reads records only. What the page says is put together here; how it looks is in templates/.
"""

import base64
import functools
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reslab import files
from reslab.records import StudyResult, to_json
from reslab.report import numbers
from reslab.report.arms import ArmGroup, group_arms, series_of
from reslab.report.charts import Chart
from reslab.report.curves import Curve, error_chart, measured_curves
from reslab.report.deepening import deepening_chart, group_deepened
from reslab.report.gradients import gradient_chart
from reslab.report.palette import SERIES
from reslab.report.paper import is_same_data, published_for
from reslab.report.still import draw_still
from reslab.report.tables import curves_csv, results_csv

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["ReportPaths", "render_study", "write_report"]

VERDICTS = ("holds", "does not hold", "inside the noise", "not measured")


@dataclass(frozen=True)
class ReportPaths:
    """Where the parts of a report lie."""

    page: Path
    png: Path
    svg: Path
    csv: Path
    curves: Path
    json: Path


def write_report(result: StudyResult, folder: Path) -> ReportPaths:
    """Write the report of `result` into `folder`, each file whole or not at all.

    The page comes last, so one that is there has its figures and tables beside it. Raises DiskError
    when the disk refuses.
    """
    folder = Path(folder)
    paths = ReportPaths(
        page=folder / "index.html",
        png=folder / "figure.png",
        svg=folder / "figure.svg",
        csv=folder / "results.csv",
        curves=folder / "curves.csv",
        json=folder / "result.json",
    )
    png, svg = draw_still(group_arms(result.arms), note=_still_note(result))
    page = render_study(result, still=svg)
    files.write_json(paths.json, to_json(result))
    files.write_text(paths.csv, results_csv(result.arms))
    files.write_text(paths.curves, curves_csv(result.arms))
    for path, content in ((paths.png, png), (paths.svg, svg)):
        with files.write_atomic(path) as file:
            file.write(content)
    files.write_text(paths.page, page)
    return paths


def _still_note(result: StudyResult) -> str:
    seeds = len({arm.seed for arm in result.arms})
    means = f"Means over {seeds} seeds, band: lowest to highest. " if seeds > 1 else ""
    return f"{means}Thin: training error. Bold: test error. Data: {result.data}."


def render_study(result: StudyResult, *, still: bytes = b"") -> str:
    """The page as HTML; `still` is the SVG shown where scripts are off."""
    template = _environment().get_template("study.html.j2")
    return template.render(
        _context(result), still=base64.b64encode(still).decode(), plotly=_plotly_script()
    )


@functools.cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("reslab.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    formats = {name.removeprefix("format_"): getattr(numbers, name) for name in numbers.__all__}
    environment.filters |= formats
    return environment


def _plotly_script() -> Any:
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    return Markup(get_plotlyjs().replace("</script", "<\\/script"))


def _context(result: StudyResult) -> dict[str, Any]:
    groups = group_arms(result.arms)
    charts = {
        "errors": error_chart(groups),
        "gradients": gradient_chart(groups),
        "deepening": deepening_chart(result.deepened),
    }
    lead, rest = _sentences(result.verdict)
    return {
        "result": result,
        "lead": lead,
        "rest": rest,
        "verdicts": VERDICTS,
        "tally": _tally(result),
        "groups": groups,
        "series": series_of(groups),
        "paper": _paper(result.data, groups),
        "seeds": sorted({arm.seed for arm in result.arms}),
        "curve_tables": _curve_tables(measured_curves(groups)),
        "deepenings": group_deepened(result.deepened),
        "palette": SERIES,
        "charts": charts,
        "figures": _figures(charts.values()),
    }


def _sentences(verdict: str) -> tuple[str, str]:
    """The verdict's first sentence, set large, and the rest."""
    lead, *rest = re.split(r"(?<=[.!?])\s+(?=[A-Z])", verdict.strip(), maxsplit=1)
    return lead, rest[0] if rest else ""


def _tally(result: StudyResult) -> list[tuple[str, int]]:
    counts = Counter(claim.verdict for claim in result.claims)
    known = [verdict for verdict in VERDICTS if counts[verdict]]
    others = sorted(verdict for verdict in counts if verdict not in VERDICTS)
    return [(verdict, counts[verdict]) for verdict in (*known, *others)]


def _paper(data: str, groups: Sequence[ArmGroup]) -> dict[str, Any]:
    published = {group.name: published_for(group.kind, group.depth) for group in groups}
    known = {name: figures for name, figures in published.items() if figures is not None}
    return {
        "figures": known,
        "data": " and ".join(sorted({figures.data for figures in known.values()})),
        "same_data": is_same_data(data, known.values()),
    }


def _curve_tables(curves: Sequence[Curve]) -> list[dict[str, Any]]:
    """The figure's data once more, as a table a kind: header entries and a row an iteration."""
    tables = []
    for kind in dict.fromkeys(curve.group.kind for curve in curves):
        mine = [curve for curve in curves if curve.group.kind == kind]
        means = [{step: spread.mean for step, spread in curve.points} for curve in mine]
        rows = [(s, [m.get(s) for m in means]) for s in sorted(set().union(*means))]
        tables.append({"kind": kind, "columns": [c.entry.label for c in mine], "rows": rows})
    return tables


def _figures(charts: Iterable[Chart | None]) -> dict[str, Any]:
    """Every panel's figures by its key, as the page's script reads them."""
    drawn = [chart for chart in charts if chart is not None]
    return _finite({panel.key: panel.figures for chart in drawn for panel in chart.panels})


def _finite(value: Any) -> Any:
    """The same data with null for NaN and infinities, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
