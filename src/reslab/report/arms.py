"""The runs of a study put together: one group an arm, its seeds averaged. No drawing here."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reslab.records import ArmResult, CurvePoint, LayerNorm

__all__ = ["ArmGroup", "Spread", "group_arms", "mean_curve", "mean_norms", "series_of", "spread_of"]

# Plain nets stand left, as in He 2015, Fig. 6; kinds this list lacks follow by name.
_KIND_ORDER = ("plain", "resnet")


@dataclass(frozen=True)
class Spread:
    """Mean and extremes of one quantity over `count` seeds; `deviation` is None for one seed."""

    mean: float
    low: float
    high: float
    count: int
    deviation: float | None = None


@dataclass(frozen=True)
class ArmGroup:
    """All seeds of one arm; `runs` has at least one, in order of seed."""

    name: str
    runs: tuple[ArmResult, ...]

    @property
    def kind(self) -> str:
        """What the arm's nets are: "plain", "resnet", ..."""
        return self.runs[0].kind

    @property
    def depth(self) -> int:
        """Weighted layers."""
        return self.runs[0].depth

    @property
    def parameters(self) -> int:
        """Numbers the net learns."""
        return self.runs[0].parameters

    @property
    def train_error(self) -> Spread | None:
        """Final training error over seeds, percent."""
        return spread_of(run.final_train_error for run in self.runs)

    @property
    def test_error(self) -> Spread | None:
        """Final test error over seeds, percent."""
        return spread_of(run.final_test_error for run in self.runs)

    @property
    def seconds(self) -> Spread | None:
        """Time of one run."""
        return spread_of(run.seconds for run in self.runs)


def spread_of(values: Iterable[float | None]) -> Spread | None:
    """Mean, minimum, maximum and sample deviation of the finite values; None without any.

    >>> spread_of([1.0, 3.0]).mean
    2.0
    """
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return None
    deviation = statistics.stdev(known) if len(known) > 1 else None
    return Spread(statistics.fmean(known), min(known), max(known), len(known), deviation)


def group_arms(arms: Sequence[ArmResult]) -> tuple[ArmGroup, ...]:
    """The arms by name: plain first, then residual, then others; shallow before deep."""
    runs: dict[str, list[ArmResult]] = {}
    for arm in arms:
        runs.setdefault(arm.name, []).append(arm)
    groups = [
        ArmGroup(name, tuple(sorted(mine, key=lambda run: run.seed))) for name, mine in runs.items()
    ]
    return tuple(sorted(groups, key=_place))


def _place(group: ArmGroup) -> tuple[int, str, int, str]:
    known = group.kind in _KIND_ORDER
    rank = _KIND_ORDER.index(group.kind) if known else len(_KIND_ORDER)
    return rank, group.kind, group.depth, group.name


def series_of(groups: Sequence[ArmGroup]) -> dict[str, int]:
    """Which colour each arm has: one a depth, the same for all kinds.

    Where two arms of one kind share a depth, the colour follows the name instead.
    """
    by_depth = len({(g.kind, g.depth) for g in groups}) == len(groups)
    keys: dict[str, int | str] = {g.name: g.depth if by_depth else g.name for g in groups}
    order = sorted(set(keys.values()), key=lambda key: (isinstance(key, str), key))
    return {name: order.index(key) for name, key in keys.items()}


def mean_curve(group: ArmGroup, quantity: str) -> tuple[tuple[int, Spread], ...]:
    """The curve of `quantity` ("train_error", "test_error") averaged over the arm's seeds.

    Only iterations that every seed with a curve has measured count: a mean over changing sets of
    seeds would show steps that no run took.
    """
    curves = [curve for run in group.runs if (curve := _values(run.curve, quantity))]
    if not curves:
        return ()
    shared = set(curves[0]).intersection(*curves[1:])
    spreads = ((step, spread_of(curve[step] for curve in curves)) for step in sorted(shared))
    return tuple((step, spread) for step, spread in spreads if spread is not None)


def _values(curve: Iterable[CurvePoint], quantity: str) -> dict[int, float]:
    pairs = ((point.iteration, getattr(point, quantity)) for point in curve)
    return {step: value for step, value in pairs if value is not None and math.isfinite(value)}


def mean_norms(
    measured: Sequence[Sequence[LayerNorm]], quantity: str
) -> tuple[tuple[str, float], ...]:
    """Layer and mean over seeds of `quantity` ("norm", "relative"), first layer first.

    Seeds whose layers differ from those of the first are left out, as are values not finite.
    """
    measured = [layers for layers in measured if layers]
    if not measured:
        return ()
    names = [layer.layer for layer in measured[0]]
    alike = [layers for layers in measured if [layer.layer for layer in layers] == names]
    columns = zip(*alike, strict=True)
    means = (spread_of(getattr(layer, quantity) for layer in column) for column in columns)
    return tuple((name, s.mean) for name, s in zip(names, means, strict=True) if s is not None)
