"""Records of trainings, evaluations and studies."""

from dataclasses import dataclass, field
from typing import Any

from reslab.records.form import SCHEMA

__all__ = [
    "ArmResult",
    "Claim",
    "CurvePoint",
    "DeepenedResult",
    "EvalResult",
    "LayerNorm",
    "StudyResult",
]


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
