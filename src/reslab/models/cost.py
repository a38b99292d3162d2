"""What a net costs: parameters, and multiply-adds (MACs) of one forward on one sample."""

import copy
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

__all__ = ["Cost", "count_parameters", "measure_cost"]


@dataclass(frozen=True)
class Cost:
    """Parameters (buffers not counted) and MACs of one forward on one sample."""

    parameters: int
    macs: int


def count_parameters(model: nn.Module) -> int:
    """Elements of all parameters, shared ones once."""
    return sum(p.numel() for p in model.parameters())


def measure_cost(model: nn.Module, input_shape: tuple[int, ...]) -> Cost:
    """Count on the meta device: nothing is computed and the model is left as it is.

    `input_shape` is that of one sample, (C, H, W). MACs are those of convolutions and matrix
    products, as the papers count them: one multiply-add is one, not two.

    >>> measure_cost(nn.Linear(3, 5), (3,))
    Cost(parameters=20, macs=15)
    """
    shadow = copy.deepcopy(model).to("meta").eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        shadow(torch.empty(1, *input_shape, device="meta"))
    return Cost(count_parameters(model), counter.get_total_flops() // 2)
