"""One optimizer step: forward, loss, backward, update. And where a loss stopped being finite."""

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reslab.data import IGNORED, Batch, Inputs, count_scored
from reslab.recipe import Recipe
from reslab.train.memory import keep_freed_memory
from reslab.train.precision import autocast, choose_precision, compiled

__all__ = ["Stepper", "first_non_finite", "on_device"]


@dataclass
class Stepper:
    """A training step set up once: precision, layout, compilation, accumulation, clipping."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    recipe: Recipe
    device: torch.device

    def __post_init__(self) -> None:
        if self.device.type == "cpu":
            keep_freed_memory()
        self.precision = choose_precision(self.recipe.precision, self.device)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.precision == "fp16")
        self.fast: Callable[..., Tensor] = (
            compiled(self.model, self.device) if self.recipe.compile else self.model
        )

    def __call__(self, batch: Batch, lr: float) -> tuple[float, int]:
        """Update the weights by one batch; return its mean loss and how many it got wrong.

        A loss that is not finite is returned as it is, and the weights are left alone.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        loss, wrong = torch.zeros((), device=self.device), torch.zeros((), device=self.device)
        for inputs, targets, share in self._parts(batch):
            with autocast(self.precision, self.device):
                logits = self._forward(inputs).flatten(0, -2)
                targets = targets.flatten()
                part = F.cross_entropy(
                    logits.float(), targets, label_smoothing=self.recipe.label_smoothing
                )
            self.scaler.scale(part * share).backward()
            loss += part.detach() * share
            wrong += ((logits.detach().argmax(1) != targets) & (targets != IGNORED)).sum()
        mean_loss, mistakes = torch.stack([loss, wrong]).tolist()
        if math.isfinite(mean_loss):
            self._update()
        self.optimizer.zero_grad(set_to_none=True)
        return mean_loss, int(mistakes)

    def _parts(self, batch: Batch) -> Iterator[tuple[tuple[Tensor, ...], Tensor, float]]:
        """Inputs and targets on the device, and each part's share of the scored targets."""
        # Batch norm needs two samples, so no part may hold one alone.
        parts = max(1, min(self.recipe.accumulate, len(batch.targets) // 2))
        inputs = zip(*(x.tensor_split(parts) for x in self.prepare(batch.inputs)), strict=True)
        targets = batch.targets.to(self.device, non_blocking=True).tensor_split(parts)
        scored = [count_scored(part) for part in batch.targets.tensor_split(parts)]
        shares = (count / max(1, sum(scored)) for count in scored)
        yield from zip(inputs, targets, shares, strict=True)

    def _forward(self, inputs: tuple[Tensor, ...]) -> Tensor:
        # The last batch of an epoch is smaller; compiling again for it costs more than it brings.
        full = -(-self.recipe.batch_size // self.recipe.accumulate)
        return (self.fast if len(inputs[0]) == full else self.model)(*inputs)

    def _update(self) -> None:
        if self.recipe.clip_norm is not None:
            self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def first_non_finite(self, batch: Batch) -> str:
        """Where NaN or infinity first appears in this batch's forward pass, in its precision."""
        with autocast(self.precision, self.device):
            return first_non_finite(self.model, self.prepare(batch.inputs))

    def prepare(self, inputs: Inputs) -> tuple[Tensor, ...]:
        """The inputs on the device, images in the layout that convolutions like."""
        return on_device(inputs, self.device, channels_last=self.recipe.channels_last)


def on_device(
    inputs: Inputs, device: torch.device, *, channels_last: bool = True
) -> tuple[Tensor, ...]:
    """What a net is called with, on the device: one tensor of pictures, or the ids of a text."""
    moved = tuple(
        x.to(device, non_blocking=True)
        for x in (inputs if isinstance(inputs, tuple) else (inputs,))
    )
    if channels_last and moved[0].ndim == 4:
        return (moved[0].contiguous(memory_format=torch.channels_last),)
    return moved


def first_non_finite(model: nn.Module, inputs: tuple[Tensor, ...]) -> str:
    """Where NaN or infinity first appears: the input, a parameter, or the output of a module."""
    if not all(torch.isfinite(x).all() for x in inputs):
        return "the input batch"
    for name, parameter in model.named_parameters():
        if not torch.isfinite(parameter).all():
            return f"parameter {name}"
    found: list[str] = []
    with contextlib.ExitStack() as stack, torch.no_grad():
        for name, module in model.named_modules():
            handle = module.register_forward_hook(_watch(name or "the model", found))
            stack.callback(handle.remove)
        model(*inputs)
    return f"the output of {found[0]}" if found else "the loss itself"


def _watch(name: str, found: list[str]) -> Callable[[nn.Module, object, object], None]:
    def hook(module: nn.Module, inputs: object, output: object) -> None:
        if isinstance(output, Tensor) and not torch.isfinite(output).all():
            found.append(name)

    return hook
