"""Blocks whose input can be computed from their output, so that training need not store it.

RevNet (Gomez 2017, arXiv 1707.04585). Channels are two halves x1, x2:

    y1 = x1 + F(x2)        x2 = y2 - G(y1)
    y2 = x2 + G(y1)        x1 = y1 - F(x2)

`ReversibleSequence` stores its last output alone and walks back through the inverses.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import get_device_states, set_device_states

from reslab.errors import ModelError
from reslab.nn.block import frozen_statistics
from reslab.nn.shortcut import Identity

__all__ = ["CoupledBlock", "ReversibleSequence"]


class CoupledBlock(nn.Module):
    """y1 = shortcut(x1) + F(x2), y2 = shortcut(x2) + G(y1), each half of the channels.

    `f` and `g` are the paper's two residual functions, modules that one can hold and hook; with an
    identity shortcut the block has an inverse. A shortcut that changes the shape, for the first block
    of a stage, has none.

    >>> block = CoupledBlock(nn.Linear(2, 2), nn.Linear(2, 2))
    >>> x = torch.randn(3, 4)
    >>> torch.allclose(block.inverse(block(x)), x, atol=1e-6)
    True
    """

    def __init__(self, f: nn.Module, g: nn.Module, *, shortcut: nn.Module | None = None) -> None:
        super().__init__()
        self.f = f
        self.g = g
        self.shortcut = shortcut if shortcut is not None else Identity()

    @property
    def is_reversible(self) -> bool:
        """Whether the shortcut is the identity."""
        return isinstance(self.shortcut, nn.Identity)

    def couple(self, x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
        """Both halves through the block."""
        y1 = self.shortcut(x1) + self.f(x2)
        return y1, self.shortcut(x2) + self.g(y1)

    def uncouple(self, y1: Tensor, y2: Tensor) -> tuple[Tensor, Tensor]:
        """Both halves back through it."""
        x2 = y2 - self.g(y1)
        return y1 - self.f(x2), x2

    def forward(self, x: Tensor) -> Tensor:
        """[N, C, ...] -> [N, C', ...], halves side by side."""
        return torch.cat(self.couple(*x.chunk(2, dim=1)), 1)

    def inverse(self, y: Tensor) -> Tensor:
        """The x that `forward` maps to y; ModelError where the shortcut changes the shape."""
        if not self.is_reversible:
            raise ModelError("a block that changes the shape has no inverse")
        return torch.cat(self.uncouple(*y.chunk(2, dim=1)), 1)


class ReversibleSequence(nn.Sequential):
    """Coupled blocks one after another, [N, C, ...] -> [N, C, ...], whose activations are not stored.

    In training the backward pass recomputes each block's input from its output: one more forward's
    work, and memory that does not depend on the number of blocks. Gradients are those of the plain
    computation up to rounding; running statistics move once, random numbers repeat, autocast is as it
    was. Both halves are carried in the weights' dtype (float32 under autocast), since the inverse
    loses what half precision rounds away. `saves_memory=False`, evaluation mode, compiling and
    exporting take the plain computation. Second derivatives need it too.
    """

    def __init__(self, *blocks: CoupledBlock, saves_memory: bool = True) -> None:
        if not all(isinstance(b, CoupledBlock) and b.is_reversible for b in blocks):
            raise ModelError("only coupled blocks that keep the shape have an inverse")
        super().__init__(*blocks)
        self.saves_memory = saves_memory

    @property
    def blocks(self) -> list[CoupledBlock]:
        """The blocks, first to last."""
        return [block for block in self if isinstance(block, CoupledBlock)]

    def forward(self, x: Tensor) -> Tensor:
        """The blocks' output for x."""
        parameters = [p for p in self.parameters() if p.requires_grad]
        if parameters:
            x = x.to(parameters[0].dtype)
        if self._stores_nothing():
            return _Reversible.apply(tuple(self.blocks), x, *parameters)
        x1, x2 = x.chunk(2, dim=1)
        for block in self.blocks:
            x1, x2 = block.couple(x1, x2)
        return torch.cat((x1, x2), 1)

    def inverse(self, y: Tensor) -> Tensor:
        """The x that `forward` maps to y; in training mode running statistics move once more."""
        for block in reversed(self.blocks):
            y = block.inverse(y)
        return y

    def _stores_nothing(self) -> bool:
        wanted = self.saves_memory and self.training and torch.is_grad_enabled()
        return wanted and not torch.compiler.is_compiling()

    def extra_repr(self) -> str:
        """Whether activations are recomputed."""
        return f"saves_memory={self.saves_memory}"


class _Reversible(torch.autograd.Function):
    """Forward without a graph; backward block by block, from the output alone."""

    @staticmethod
    def forward(
        ctx: Any, blocks: tuple[CoupledBlock, ...], x: Tensor, *parameters: Tensor
    ) -> Tensor:
        ctx.blocks, ctx.parameters = blocks, parameters
        ctx.surroundings = surroundings = _Surroundings(x)
        ctx.states = []
        x1, x2 = x.chunk(2, dim=1)
        with surroundings.autocast():
            for block in blocks:
                residual, before_f = surroundings.noted(block.f, x2)
                x1 = x1 + residual
                residual, before_g = surroundings.noted(block.g, x1)
                x2 = x2 + residual
                ctx.states.append((before_f, before_g))
        y = torch.cat((x1, x2), 1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (y,) = ctx.saved_tensors
        (y1, y2), (grad1, grad2) = y.chunk(2, dim=1), grad.chunk(2, dim=1)
        sums: dict[Tensor, Tensor] = {}
        replay = ctx.surroundings.replay
        for block, states in zip(reversed(ctx.blocks), reversed(ctx.states), strict=True):
            before_f, before_g = states
            with replay(before_g), frozen_statistics(block):
                residual, part = _differentiate(block.g, y1, grad2, sums)
            y2, grad1 = y2 - residual, grad1 + part
            with replay(before_f), frozen_statistics(block):
                residual, part = _differentiate(block.f, y2, grad1, sums)
            y1, grad2 = y1 - residual, grad2 + part
        return None, torch.cat((grad1, grad2), 1), *(sums.get(p) for p in ctx.parameters)


def _differentiate(
    function: nn.Module, x: Tensor, grad: Tensor, sums: dict[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """function(x), and grad times its derivative by x; those by its parameters are added to `sums`."""
    own = [p for p in function.parameters() if p.requires_grad]
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        y = function(x)
    by_x, *by_own = torch.autograd.grad(y, [x, *own], grad.to(y.dtype), materialize_grads=True)
    for parameter, part in zip(own, by_own, strict=True):
        sums[parameter] = sums[parameter] + part if parameter in sums else part
    return y.detach(), by_x


_RandomState = tuple[Tensor, list[int], list[Tensor]]


class _Surroundings:
    """Autocast and random numbers as they were in the forward pass."""

    def __init__(self, x: Tensor) -> None:
        self.x_device = x.device
        device = x.device.type
        self.can_autocast = torch.amp.is_autocast_available(device)
        if self.can_autocast:
            self.enabled = torch.is_autocast_enabled(device)
            self.dtype = torch.get_autocast_dtype(device)

    def autocast(self) -> AbstractContextManager[Any]:
        """The forward pass's autocast, without its cache.

        A weight cast and cached while no graph is recorded would lose its gradient later.
        """
        if not self.can_autocast:
            return nullcontext()
        device = self.x_device.type
        return torch.autocast(device, self.dtype, self.enabled, cache_enabled=False)

    def noted(self, function: nn.Module, x: Tensor) -> tuple[Tensor, _RandomState | None]:
        """function(x), and the generators' states before it if it drew random numbers."""
        before = self._random_state()
        y = function(x)
        after = self._random_state()
        pairs = zip((before[0], *before[2]), (after[0], *after[2]), strict=True)
        return y, None if all(torch.equal(a, b) for a, b in pairs) else before

    def _random_state(self) -> _RandomState:
        return torch.get_rng_state(), *get_device_states(torch.empty(0, device=self.x_device))

    @contextmanager
    def replay(self, state: _RandomState | None) -> Iterator[None]:
        """Autocast as then; random numbers from `state`, and afterwards as if none were drawn."""
        with self.autocast():
            if state is None:
                yield
                return
            cpu, devices, states = state
            kind = self.x_device.type
            with torch.random.fork_rng(devices, device_type=kind if devices else "cuda"):
                torch.set_rng_state(cpu)
                set_device_states(devices, states, device_type=kind if devices else None)
                yield
