"""Initial weights, each with its source."""

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from reslab.nn.block import ResidualBlock

__all__ = ["init_dirac", "init_he", "init_zero_branches"]


def init_he(model: nn.Module) -> None:
    """Convolutions from N(0, 2 / fan_out) (He et al. 2015, arXiv 1502.01852); norms 1 and 0."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(module, _BatchNorm):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)


def init_zero_branches(model: nn.Module) -> None:
    """The last norm of each branch starts at zero, so that each block starts as its shortcut."""
    for module in model.modules():
        if isinstance(module, ResidualBlock):
            norms = [m for m in module.branch.modules() if isinstance(m, _BatchNorm)]
            nn.init.zeros_(norms[-1].weight)


def init_dirac(branch: nn.Module) -> None:
    """Make a branch of 3x3 convolutions and batch norms the identity on x >= 0, in eval mode.

    Convolutions pass each channel through (Dirac); norms have mean 0 and variance 1 - eps, hence
    scale exactly 1. ReLUs between them change nothing because x is not negative.
    """
    with torch.no_grad():
        for module in branch.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.dirac_(module.weight)
            elif isinstance(module, _BatchNorm):
                module.reset_parameters()
                assert module.running_var is not None, "reslab norms track running statistics"
                module.running_var.fill_(1 - module.eps)
