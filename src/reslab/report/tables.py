"""The study as tables for other programs: results.csv and curves.csv. Text only."""

import csv
import io
from collections.abc import Iterable, Sequence

from reslab.records import ArmResult

__all__ = ["curves_csv", "results_csv"]

_RESULT_FIELDS = (
    "name",
    "model",
    "kind",
    "depth",
    "seed",
    "parameters",
    "final_train_error",
    "final_train_loss",
    "final_test_error",
    "seconds",
    "folder",
)
_POINT_FIELDS = ("iteration", "train_error", "train_loss", "test_error", "test_loss", "lr")


def results_csv(arms: Sequence[ArmResult]) -> str:
    """One row a training (an arm with one seed); errors in percent, time in seconds."""
    rows = ([getattr(arm, name) for name in _RESULT_FIELDS] for arm in arms)
    return _csv(_RESULT_FIELDS, rows)


def curves_csv(arms: Sequence[ArmResult]) -> str:
    """One row a curve point of every training; what was not measured is empty."""
    rows = (
        [arm.name, arm.seed, *(getattr(point, name) for name in _POINT_FIELDS)]
        for arm in arms
        for point in arm.curve
    )
    return _csv(("name", "seed", *_POINT_FIELDS), rows)


def _csv(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return buffer.getvalue()
