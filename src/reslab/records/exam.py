"""Records of an exam: what was measured on a net, how to read it, and what it says.

Every measurement ends as an `ExamPart`: a table, figures as plain series, and findings decided by
stated thresholds. Pages, CSV files and the terminal show these and know no measurement by name.
"""

from dataclasses import dataclass, field
from typing import Any

from reslab.records.form import SCHEMA

__all__ = ["ExamPart", "ExamResult", "Finding", "Plot", "Series", "StretchRecord", "UnitRecord"]

Cell = str | int | float | bool | None


@dataclass(frozen=True, kw_only=True)
class Series:
    """One line, row of bars or row of a heat map; None in `y` leaves a gap. `low`/`high`: a band."""

    name: str
    x: tuple[Any, ...]
    y: tuple[Any, ...]
    low: tuple[Any, ...] = ()
    high: tuple[Any, ...] = ()
    reference: bool = False


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A figure as data. `kind` is "line", "bar", "points" or "heat" (each series is a row).

    `reference` series (a theory's law, a noise) are drawn dashed and grey.
    """

    title: str
    kind: str
    x_title: str
    y_title: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One observation with its evidence.

    `level` is "good", "note", "warning" or "bad". `text` says it in plain words, `rule` the threshold
    that decided, `evidence` the figures measured, `advice` what to try. `units` are names of units
    that it is about.
    """

    level: str
    text: str
    rule: str
    evidence: str
    advice: str = ""
    units: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ExamPart:
    """One measurement. `trouble` is a sentence when it could not be done (then nothing else is set).

    `definition` says what was computed, `source` the paper and section, `caveat` what it does not
    show. `unit_values` has one figure a unit (by name) for the schematic, `unit_label` its name.
    """

    key: str
    title: str
    definition: str
    source: str
    caveat: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    plots: tuple[Plot, ...] = ()
    findings: tuple[Finding, ...] = ()
    unit_label: str = ""
    unit_values: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    trouble: str = ""


@dataclass(frozen=True, kw_only=True)
class UnitRecord:
    """One residual unit as found, for tables and the schematic; shapes include the batch."""

    index: int
    name: str
    shortcut: str
    merge: str
    order: str
    removable: bool
    in_shape: tuple[int, ...]
    out_shape: tuple[int, ...]
    branch_modules: tuple[str, ...]
    weighted_layers: int


@dataclass(frozen=True, kw_only=True)
class StretchRecord:
    """Weighted layers in a row outside all units, run before unit `before`."""

    before: int
    layers: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ExamResult:
    """Everything an exam found on one net, and what is needed to do it again."""

    target: str
    title: str
    data: str
    command: str
    created: str
    method: str
    parameters: int
    units: tuple[UnitRecord, ...]
    stretches: tuple[StretchRecord, ...]
    parts: tuple[ExamPart, ...]
    notes: tuple[str, ...] = ()
    seed: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    schema: int = SCHEMA
