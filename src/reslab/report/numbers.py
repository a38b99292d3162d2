"""Numbers as a reader wants them: percent, counts, durations. Text only."""

import json
import math
import re
from typing import Any

from reslab.report.arms import Spread

__all__ = [
    "format_count",
    "format_duration",
    "format_error",
    "format_number",
    "format_prose",
    "format_spread",
    "format_value",
]

NOTHING = "–"


def format_error(value: float | None) -> str:
    """An error in percent, two decimals.

    >>> format_error(8.746)
    '8.75'
    """
    return NOTHING if value is None or not math.isfinite(value) else _signed(f"{value:.2f}")


def format_spread(spread: Spread | None) -> str:
    """Mean and, with two seeds or more, the standard deviation.

    >>> format_spread(Spread(8.75, 8.5, 9.0, 3, 0.25))
    '8.75 ± 0.25'
    """
    if spread is None:
        return NOTHING
    mean = format_error(spread.mean)
    return mean if spread.deviation is None else f"{mean} ± {format_error(spread.deviation)}"


def format_count(value: int) -> str:
    """A whole number in groups of three, kept on one line.

    >>> format_count(269722)
    '269,722'
    """
    return f"{value:,}"


def format_duration(seconds: float | None) -> str:
    """Seconds in the largest two units that matter.

    >>> [format_duration(s) for s in (0.42, 12.3, 185, 4000)]
    ['0.4 s', '12 s', '3 min 5 s', '1 h 7 min']
    """
    if seconds is None or not math.isfinite(seconds):
        return NOTHING
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def format_number(value: float | None) -> str:
    """Any measured number: whole ones grouped, tiny ones as powers of ten.

    >>> [format_number(v) for v in (3, 69.7, 1234.5, 0.0000012, -2.5, float("nan"))]
    ['3', '69.70', '1,234.5', '1.2 × 10⁻⁶', '−2.50', '–']
    """
    if value is None or not math.isfinite(value):
        return NOTHING
    if value == int(value) and abs(value) < 1e15:
        return _signed(f"{int(value):,}")
    if abs(value) < 0.005:
        return _power_of_ten(value)
    return _signed(f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.2f}")


def _power_of_ten(value: float) -> str:
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{_signed(mantissa)} × 10{raised}"


def _signed(text: str) -> str:
    return text.replace("-", "−")


def format_value(value: Any) -> str:
    """A recipe's or environment's value as YAML would take it on one line.

    >>> [format_value(v) for v in ("sgd", "", None, True, [0.5, 0.75])]
    ['sgd', '""', 'null', 'true', '[0.5, 0.75]']
    """
    if isinstance(value, str) and value:
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def format_prose(text: str) -> str:
    """A sentence whose numbers stay on one line with their percent sign.

    >>> format_prose("8.75 % error") == "8.75\\N{NO-BREAK SPACE}% error"
    True
    """
    return re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", text)
