"""What is examined: a model, its structure, batches to run it on, and the loss.

A batch is (inputs, targets): `inputs` a tensor, a tuple of arguments or a dict of keyword arguments;
`targets` class numbers, [N] or [N, T] with -100 where nothing is scored, or None where there are no
labels.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from reslab.errors import ModelError
from reslab.examine.recording import Example, call_model, describe
from reslab.examine.structure import Structure

__all__ = ["Batch", "Loss", "Subject", "default_loss", "logits_of", "loss_on", "on_device_of"]

Batch = tuple[Example, Tensor | None]
Loss = Callable[[Any, Tensor | None], Tensor]


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The model under examination with all that measurements need; batches may be read many times.

    The first batch is the one that single-batch measurements use. `seed` decides every random draw.
    """

    model: nn.Module
    structure: Structure
    batches: Sequence[Batch]
    loss: Loss
    seed: int = 0

    @property
    def batch(self) -> Batch:
        """The first batch."""
        return self.batches[0]


def on_device_of(model: nn.Module, batch: Batch) -> Batch:
    """The batch on the device of the model's first parameter."""
    device = next(iter(model.parameters()), torch.empty(0)).device

    def move(leaf: Any) -> Any:
        return leaf.to(device) if isinstance(leaf, Tensor) else leaf

    return tree_map(move, batch[0]), None if batch[1] is None else batch[1].to(device)


def logits_of(output: Any) -> Tensor:
    """The tensor that a model's output is about: itself, its `logits`, else its first tensor.

    Takes what torchvision, timm and transformers models return. Raises ModelError without a tensor.
    """
    if isinstance(output, Tensor):
        return output
    if isinstance(output, Mapping):
        for name in ("logits", "out", "last_hidden_state"):
            if isinstance(output.get(name), Tensor):
                return output[name]
        output = list(output.values())
    if hasattr(output, "logits") and isinstance(output.logits, Tensor):
        return output.logits
    if isinstance(output, Iterable):
        for part in output:
            if isinstance(part, Tensor):
                return part
    raise ModelError("the model's output holds no tensor", got=type(output).__name__)


def default_loss(output: Any, targets: Tensor | None) -> Tensor:
    """Cross-entropy over the last dimension (or dimension 1 of maps); without targets mean(y^2) / 2.

    Scores are [N, C] or [N, T, C] with targets [N] or [N, T]; targets of -100 are left out.
    """
    logits = logits_of(output).float()
    if targets is None:
        return logits.square().mean() / 2
    if logits.shape[:-1] == targets.shape:
        return F.cross_entropy(logits.flatten(0, -2), targets.flatten())
    return F.cross_entropy(logits, targets)


def loss_on(model: nn.Module, batch: Batch, loss: Loss) -> Tensor:
    """The loss of one batch, in the model's current mode.

    Where gradients are enabled the loss must have one: ModelError says so otherwise, and where it is
    not one number.
    """
    inputs, targets = batch
    value = loss(call_model(model, inputs), targets)
    if not isinstance(value, Tensor) or value.numel() != 1:
        got = describe(value) if isinstance(value, Tensor) else type(value).__name__
        raise ModelError("the loss is not one number", got=got)
    if torch.is_grad_enabled() and not value.requires_grad:
        raise ModelError(
            "the loss cannot be differentiated: it does not depend on anything with a gradient",
            hint="Give a loss of tensors, without .item() and .detach().",
        )
    return value.reshape(())
