"""Results as plain frozen dataclasses with a JSON form and a schema version. No torch.

What measures returns these; what reports reads these; nothing else passes between the two.
Errors are in percent, 0 to 100; losses in nats; times in seconds.
"""

import dataclasses
import types
import typing
from dataclasses import dataclass, field
from typing import Any, TypeVar

from reslab.errors import DataError

__all__ = [
    "SCHEMA",
    "ArmResult",
    "Claim",
    "CurvePoint",
    "DeepenedResult",
    "EvalResult",
    "LayerNorm",
    "StudyResult",
    "from_json",
    "to_json",
]

SCHEMA = 1

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """One point of a training curve, in the manner of He 2015 Fig. 6.

    `train_error` is the running error over the mini-batches since the last point (training mode,
    augmented); `test_error` is measured in evaluation mode.
    """

    iteration: int
    train_error: float
    train_loss: float
    test_error: float | None = None
    test_loss: float | None = None
    lr: float = 0.0


@dataclass(frozen=True, kw_only=True)
class LayerNorm:
    """Gradient norm of one weighted layer: ||dL/dW||_2, and relative to ||W||_2."""

    layer: str
    norm: float
    relative: float


@dataclass(frozen=True, kw_only=True)
class EvalResult:
    """Scores of a model on a data set; accuracies and errors in percent.

    `confusion[i][j]` counts samples of class i that were called class j. For text, samples are
    scored tokens, and `exact_match` is the percentage of sequences without a mistake.
    """

    samples: int
    top1_accuracy: float
    top1_error: float
    top5_accuracy: float | None
    loss: float
    view: str
    classes: tuple[str, ...] = ()
    per_class_accuracy: tuple[float | None, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()
    perplexity: float | None = None
    exact_match: float | None = None
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class ArmResult:
    """One training of a study: a net at one depth, with or without shortcuts, with one seed.

    The final errors are measured in evaluation mode, the training one on the training images
    without augmentation.
    """

    name: str
    model: str
    kind: str
    depth: int
    seed: int
    parameters: int
    final_train_error: float
    final_train_loss: float
    final_test_error: float
    curve: tuple[CurvePoint, ...] = ()
    gradients_start: tuple[LayerNorm, ...] = ()
    gradients_end: tuple[LayerNorm, ...] = ()
    seconds: float = 0.0
    folder: str = ""


@dataclass(frozen=True, kw_only=True)
class DeepenedResult:
    """A trained shallow plain net with identity layers put in, never trained again."""

    source: str
    seed: int
    depth_before: int
    depth_after: int
    train_error_before: float
    train_error_after: float
    trained_error: float
    largest_logit_change: float


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One step of the argument with its evidence; `verdict` is computed from the figures.

    `verdict` is "holds", "does not hold", "inside the noise", or "not measured".
    """

    key: str
    title: str
    statement: str
    rule: str
    verdict: str
    evidence: str
    figures: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StudyResult:
    """Everything a study found, and what is needed to do it again."""

    study: str
    title: str
    hypothesis: str
    protocol: str
    paper: str
    verdict: str
    data: str
    command: str
    created: str
    arms: tuple[ArmResult, ...]
    claims: tuple[Claim, ...] = ()
    deepened: tuple[DeepenedResult, ...] = ()
    recipe: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    schema: int = SCHEMA


def to_json(record: Any) -> dict[str, Any]:
    """The record as plain values."""
    return dataclasses.asdict(record)


def from_json(kind: type[T], values: dict[str, Any]) -> T:
    """The record that `to_json` wrote; DataError when the schema is newer than this reslab.

    >>> point = CurvePoint(iteration=1, train_error=50.0, train_loss=1.0)
    >>> from_json(CurvePoint, to_json(point)) == point
    True
    """
    if values.get("schema", SCHEMA) > SCHEMA:
        raise DataError("this file is of a newer reslab", got=values["schema"], expected=SCHEMA)
    return _build(kind, values)


def _build(kind: Any, value: Any) -> Any:
    if isinstance(kind, types.UnionType):
        inner = [k for k in typing.get_args(kind) if k is not type(None)]
        return None if value is None else _build(inner[0], value)
    if typing.get_origin(kind) is tuple:
        inner_kind = typing.get_args(kind)[0]
        return tuple(_build(inner_kind, v) for v in value)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return kind(**{k: _build(hints[k], v) for k, v in value.items() if k in hints})
    return value
