"""Scores of a model on a split: top-1, top-5, per class, confusion; always in evaluation mode."""

import contextlib
import time
from collections.abc import Iterable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reslab.data import EvalBatch, Inputs
from reslab.errors import DataError
from reslab.records import EvalResult
from reslab.train.step import on_device

__all__ = ["evaluate_batches", "evaluation_mode", "view_logits"]


@contextlib.contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Every module in evaluation mode and no gradients; each module's mode is restored."""
    modes = [(module, module.training) for module in model.modules()]
    tf32 = torch.backends.cudnn.allow_tf32 if torch.cuda.is_available() else None
    try:
        model.eval()
        if tf32:
            torch.backends.cudnn.allow_tf32 = False  # fp32 scores are scored in fp32
        with torch.no_grad():
            yield
    finally:
        for module, was_training in modes:
            module.training = was_training
        if tf32:
            torch.backends.cudnn.allow_tf32 = True


def view_logits(model: nn.Module, views: Iterable[Inputs], device: torch.device) -> Tensor:
    """Log-probabilities averaged over views: [N, ..., classes] in fp32, on the CPU.

    One view gives its log-softmax; several are averaged as probabilities (He 2015, section 3.4,
    averages scores).
    """
    scores = []
    for view in views:
        scores.append(model(*on_device(view, device)).float().log_softmax(-1).cpu())
    if len(scores) == 1:
        return scores[0]
    return torch.stack(scores).logsumexp(0) - torch.tensor(float(len(scores))).log()


def evaluate_batches(
    model: nn.Module,
    batches: Iterable[EvalBatch],
    *,
    classes: tuple[str, ...] = (),
    view: str = "single",
) -> EvalResult:
    """Score the model on every sample once, in fp32, on the device it is on.

    Top-5 is None below six classes. Raises DataError when a label has no score, or no sample came.
    """
    device = next(iter(model.parameters()), torch.empty(0)).device
    counts: Tensor | None = None
    top5 = loss = 0.0
    start = time.perf_counter()
    with evaluation_mode(model):
        for batch in batches:
            scores = view_logits(model, batch.views, device)
            _check_labels(batch.targets, scores.shape[1])
            if counts is None:
                counts = torch.zeros(scores.shape[1], scores.shape[1], dtype=torch.int64)
            called = scores.argmax(1)
            counts.index_put_((batch.targets, called), torch.ones_like(called), accumulate=True)
            loss += float(F.nll_loss(scores, batch.targets, reduction="sum"))
            if scores.shape[1] > 5:
                best = scores.topk(5, dim=1).indices
                top5 += int((best == batch.targets[:, None]).any(1).sum())
    if counts is None:
        raise DataError("there is nothing to evaluate on", expected="at least one sample")
    samples = int(counts.sum())
    right = int(counts.diag().sum())
    return EvalResult(
        samples=samples,
        top1_accuracy=100 * right / samples,
        top1_error=100 * (samples - right) / samples,
        top5_accuracy=100 * top5 / samples if len(counts) > 5 else None,
        loss=loss / samples,
        view=view,
        classes=classes,
        per_class_accuracy=_per_class(counts),
        confusion=tuple(tuple(row) for row in counts.tolist()),
        seconds=time.perf_counter() - start,
    )


def _per_class(counts: Tensor) -> tuple[float | None, ...]:
    rows = zip(counts.diag().tolist(), counts.sum(1).tolist(), strict=True)
    return tuple(100 * right / total if total else None for right, total in rows)


def _check_labels(targets: Tensor, classes: int) -> None:
    if len(targets) and int(targets.max()) >= classes:
        raise DataError(
            "the model scores fewer classes than the data has",
            got=f"label {int(targets.max())}",
            expected=f"labels 0 to {classes - 1}",
            hint=f"Build it with num_classes={int(targets.max()) + 1} or more.",
        )
