"""A recurrent net's passage through time, laid open: what each step carries, what comes back.

view = recurrence_view(reslab.create_model("lstm_tiny"), ids)
view.carry.mean(dim=(1, 2)), view.gradient.mean(dim=1)        # one figure a step of time
"""

import copy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from reslab.errors import ModelError
from reslab.models.recurrent import RecurrentNet
from reslab.nn import ResidualBlock
from reslab.nn.cell import carry_gate
from reslab.registry import close_names

__all__ = ["RecurrenceView", "recurrence_view"]

_SCALARS = ("last", "loss")
_Call = tuple[ResidualBlock, Tensor, Tensor]  # a block, its input and its output


@dataclass(frozen=True, kw_only=True, eq=False)
class RecurrenceView:
    """One layer of a recurrent net over T steps of N sequences; all tensors are detached.

    `carry` [T, N, width]: the factor by which a step multiplies the state that it carries (product
    over a highway cell's layers; zeros for "rnn"). `states` [T, N, width]: the carried state after
    each step (the LSTM's c; h of the others). `gradient` [T, N]: the norm of the derivative of the
    view's scalar by that state, through all paths.
    """

    carry: Tensor
    states: Tensor
    gradient: Tensor


def recurrence_view(
    net: RecurrentNet, ids: Tensor, *, of: str = "last", layer: int = -1
) -> RecurrenceView:
    """Carry gates, states and gradients through time of one layer (the last one) for ids [N, T].

    `of` is the scalar that is derived: "last", the sum of the layer's carried state after the last
    step; or "loss", the mean cross-entropy of a sequence's next tokens (a net with outputs="last"
    has none: ModelError). Computed on a copy in evaluation mode: the net stays as it is.
    """
    if of not in _SCALARS:
        raise ModelError(
            "unknown scalar", got=of, expected="last or loss", hint=close_names(of, list(_SCALARS))
        )
    if of == "loss" and net.spec.outputs == "last":
        raise ModelError("a net of the last step has no loss within its input", hint="of='last'.")
    if not -len(net.layers) <= layer < len(net.layers):
        raise ModelError("there is no such layer", got=layer, expected=f"below {len(net.layers)}")
    shadow = copy.deepcopy(net).eval().requires_grad_(True)
    blocks = [m for m in shadow.layers[layer].modules() if isinstance(m, ResidualBlock)]
    calls: list[_Call] = []
    for block in blocks:
        block.register_forward_hook(lambda m, inputs, output: calls.append((m, inputs[0], output)))
    with torch.enable_grad():
        logits = shadow(ids)
        # Blocks take turns within a step: a step's state is what the last of them gives.
        states = [output for block, _, output in calls if block is blocks[-1]]
        scalar = states[-1].sum() if of == "last" else _summed_loss(logits, ids)
    gradients = torch.autograd.grad(scalar, states, materialize_grads=True)
    return RecurrenceView(
        carry=_carried(calls, len(blocks)),
        states=torch.stack(states).detach(),
        gradient=torch.stack(gradients).norm(dim=-1),
    )


def _carried(calls: list[_Call], blocks: int) -> Tensor:
    """The product of the carry gates of each step's blocks."""
    with torch.no_grad():
        gates = torch.stack([carry_gate(block, x) for block, x, _ in calls])
    return gates.unflatten(0, (-1, blocks)).prod(1)


def _summed_loss(logits: Tensor, ids: Tensor) -> Tensor:
    """Sequences are independent: the sum over them gives each its own gradient."""
    losses = F.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:], reduction="none")
    return losses.mean(1).sum()
