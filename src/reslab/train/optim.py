"""The optimizer of a recipe, and the average of weights that is evaluated instead of them."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from reslab.recipe import Recipe

__all__ = ["build_ema", "build_optimizer"]


def build_optimizer(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """SGD or AdamW over the model; norms and biases without decay when the recipe says so."""
    trainable = [p for p in model.parameters() if p.requires_grad]
    groups: list[dict[str, Any]] = [{"params": trainable, "weight_decay": recipe.weight_decay}]
    if not recipe.decay_norms:
        groups = [
            {"params": [p for p in trainable if p.ndim > 1], "weight_decay": recipe.weight_decay},
            {"params": [p for p in trainable if p.ndim <= 1], "weight_decay": 0.0},
        ]
    if recipe.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=recipe.lr, betas=(recipe.betas[0], recipe.betas[1]))
    return torch.optim.SGD(groups, lr=recipe.lr, momentum=recipe.momentum, nesterov=recipe.nesterov)


def build_ema(model: nn.Module, decay: float) -> AveragedModel:
    """An exponential average of weights and buffers, its decay warmed up.

    The decay at update t is min(decay, (1 + t) / (10 + t)), so the average forgets the initial
    weights at once instead of after 1 / (1 - decay) updates.
    """

    @torch.no_grad()
    def update(averaged: Any, current: Any, updates: Tensor | int) -> None:
        keep = min(decay, (1 + int(updates)) / (10 + int(updates)))
        for ours, theirs in zip(averaged, current, strict=True):
            if ours.is_floating_point():
                ours.lerp_(theirs.to(ours.dtype), 1 - keep)
            else:
                ours.copy_(theirs)

    return AveragedModel(model, multi_avg_fn=update, use_buffers=True)
