"""Gradient norms, layer by layer: does the signal from the loss reach the first layers?"""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reslab.records import LayerNorm

__all__ = ["measure_gradient_norms"]


def measure_gradient_norms(
    model: nn.Module, inputs: Tensor, targets: Tensor
) -> tuple[LayerNorm, ...]:
    """||dL/dW||_2 of every convolution and linear layer on the branches, stem and head, in order.

    The gradient is that of the cross-entropy of one batch in training mode, as an optimizer would
    see it (He 2015, section 4.1, checked its plain nets so). Works on a copy: weights, statistics
    and gradients of `model` stay as they are. Projections of shortcuts are left out.
    """
    shadow = copy.deepcopy(model).train()
    shadow.zero_grad(set_to_none=True)
    device = next(shadow.parameters()).device
    with torch.enable_grad(), torch.random.fork_rng(devices=[]):
        F.cross_entropy(shadow(inputs.to(device)), targets.to(device)).backward()
    return tuple(
        _norm(name, module.weight)
        for name, module in shadow.named_modules()
        if isinstance(module, nn.Conv2d | nn.Linear) and ".shortcut." not in name
    )


def _norm(name: str, weight: Tensor) -> LayerNorm:
    gradient = 0.0 if weight.grad is None else float(weight.grad.norm())
    return LayerNorm(
        layer=name, norm=gradient, relative=gradient / max(float(weight.detach().norm()), 1e-30)
    )
