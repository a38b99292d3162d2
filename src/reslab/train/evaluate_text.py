"""Scores of a net on text: token error, perplexity, and for translation whole sequences."""

import math
import time
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reslab.data import IGNORED, EvalBatch
from reslab.errors import DataError
from reslab.models.decode import greedy_decode
from reslab.records import EvalResult
from reslab.train.evaluate import evaluation_mode, view_logits
from reslab.train.step import on_device

__all__ = ["evaluate_text"]


def evaluate_text(
    model: nn.Module, batches: Iterable[EvalBatch], *, task: str, classes: tuple[str, ...] = ()
) -> EvalResult:
    """Score the net on every sample once, in fp32, on the device it is on.

    Error, accuracy and loss (in nats) are means over scored tokens, `samples` their number, and
    perplexity is exp(loss). With task "translate" the target is also written by greedy decoding from
    the source alone; `exact_match` is the percentage of targets that come out whole.
    """
    device = next(iter(model.parameters()), torch.empty(0)).device
    right = samples = whole = sequences = 0
    loss, start = 0.0, time.perf_counter()
    with evaluation_mode(model):
        for batch in batches:
            scores = view_logits(model, batch.views, device)
            targets = batch.targets
            flat = scores.flatten(0, -2), targets.flatten()
            loss += float(F.nll_loss(*flat, reduction="sum", ignore_index=IGNORED))
            samples += batch.scored
            right += int((scores.argmax(-1) == targets).sum())
            if task == "translate":
                whole += _whole(model, on_device(batch.views[0], device)[0], targets)
                sequences += len(targets)
    if not samples:
        raise DataError("there is nothing to evaluate on", expected="at least one sample")
    return EvalResult(
        samples=samples,
        top1_accuracy=100 * right / samples,
        top1_error=100 * (samples - right) / samples,
        top5_accuracy=None,
        loss=loss / samples,
        view="single",
        classes=classes,
        perplexity=math.exp(min(loss / samples, 700.0)),
        exact_match=100 * whole / sequences if sequences else None,
        seconds=time.perf_counter() - start,
    )


def _whole(model: nn.Module, source: Tensor, targets: Tensor) -> int:
    """How many targets [N, T] greedy decoding from the source [N, S] writes without a mistake."""
    longest = targets.shape[1]
    written = greedy_decode(model, source, max_length=longest).cpu()
    written = F.pad(written, (0, longest - written.shape[1]))
    scored = targets != IGNORED
    return int(((written == targets) | ~scored).all(1).sum())
