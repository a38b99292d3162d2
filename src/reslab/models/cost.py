"""What a net costs: parameters, and multiply-adds (MACs) of one forward on one sample."""

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

__all__ = ["Cost", "count_parameters", "example_inputs", "measure_cost"]


@dataclass(frozen=True)
class Cost:
    """Parameters (buffers not counted) and MACs of one forward on one sample."""

    parameters: int
    macs: int


def example_inputs(
    kind: str, input_shape: tuple[int, ...], *, batch: int = 2
) -> tuple[Tensor, ...]:
    """Inputs that a net of that kind takes, drawn from torch's random state.

    "image": [N, *input_shape] of float32. "tokens": ids [N, T] of int64 with input_shape (T,).
    "pairs": two tensors of ids, [N, S] and [N, T], with input_shape (S, T). Ids lie in 1..9.

    >>> [tuple(x.shape) for x in example_inputs("pairs", (5, 7))]
    [(2, 5), (2, 7)]
    """
    if kind == "image":
        return (torch.randn(batch, *input_shape),)
    return tuple(torch.randint(1, 10, (batch, length)) for length in input_shape)


def count_parameters(model: nn.Module) -> int:
    """Elements of all parameters, shared ones once."""
    return sum(p.numel() for p in model.parameters())


def measure_cost(model: nn.Module, input_shape: tuple[int, ...], *, kind: str = "image") -> Cost:
    """Count on the meta device: nothing is computed and the model is left as it is.

    `input_shape` is that of one sample, such as (C, H, W); `kind` is what `example_inputs` takes.
    MACs are those of convolutions and matrix products, as the papers count them: one multiply-add is
    one, not two.

    >>> measure_cost(nn.Linear(3, 5), (3,))
    Cost(parameters=20, macs=15)
    """
    shadow = copy.deepcopy(model).to("meta").eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        shadow(*(x.to("meta") for x in example_inputs(kind, input_shape, batch=1)))
    return Cost(count_parameters(model), counter.get_total_flops() // 2)
