"""Whether one arm's error lies above another's, or the difference is inside the noise. No torch."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

__all__ = ["Difference", "compare"]

_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Difference:
    """Mean of b - a in percentage points with its 95 % interval, over `seeds` paired seeds."""

    mean: float
    low: float
    high: float
    seeds: int

    @property
    def is_above(self) -> bool:
        """b is above a by more than the noise."""
        return self.low > 0

    @property
    def is_below(self) -> bool:
        """b is below a by more than the noise."""
        return self.high < 0

    def __str__(self) -> str:
        spread = "" if self.seeds > 1 else "; one seed, so the spread over seeds is not in it"
        return (
            f"{self.mean:+.2f} points (95 % interval {self.low:+.2f} to {self.high:+.2f}{spread})"
        )


def compare(a: Sequence[float], b: Sequence[float], *, samples: int) -> Difference:
    """The difference b - a of error rates in percent, paired by seed.

    The half-width of the interval is the larger of Student's t over the paired seeds and of what
    counting mistakes on `samples` samples alone would give (binomial), which is all there is for
    one seed.

    >>> compare([1.0, 2.0, 3.0], [11.0, 12.5, 12.0], samples=1000).is_above
    True
    """
    differences = [second - first for first, second in zip(a, b, strict=True)]
    mean = statistics.fmean(differences)
    rates = [statistics.fmean(values) / 100 for values in (a, b)]
    variance = sum(rate * (1 - rate) / samples for rate in rates) / len(differences)
    half = 100 * math.sqrt(variance) * stats.norm.ppf((1 + _CONFIDENCE) / 2)
    if len(differences) > 1:
        error = statistics.stdev(differences) / math.sqrt(len(differences))
        half = max(half, error * stats.t.ppf((1 + _CONFIDENCE) / 2, len(differences) - 1))
    return Difference(mean, float(mean - half), float(mean + half), len(differences))
