"""The residual block: the one formula that every net in reslab is made of.

    y = after( merge( shortcut(x), branch(x) ) )

What examines or reshapes nets speaks to this class alone: `branch` and `shortcut` are modules one
can hold, hook, replace and measure. Nothing in a block works in place, so captures stay right.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.utils.checkpoint import checkpoint
from torchvision.ops import StochasticDepth

from reslab.errors import ModelError
from reslab.nn.shortcut import Zero

__all__ = ["ResidualBlock", "frozen_statistics"]

_LINEAR_KINDS = (_ConvNd, nn.Linear, _BatchNorm, nn.Identity, nn.AvgPool2d, nn.Dropout, nn.Flatten)


class ResidualBlock(nn.Module):
    """y = after(merge(shortcut(x), drop_path(branch(x)))), He 2015 eq. 1 and 2.

    `shortcut=Zero()` makes it a plain block; `after=None` leaves the sum as it is (He 2016).
    `drop_path` is the probability of dropping the branch of a sample in training (stochastic
    depth); `checkpoint_activations` recomputes the block in the backward pass to save memory.

    A branch that is a linear map raises ModelError: y = (W + I)x is just another linear layer.
    `allow_linear_branch=True` builds it all the same (the one-layer case of He 2015 sec. 3.2).

    >>> branch = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    >>> block = ResidualBlock(branch, nn.Identity(), after=nn.ReLU())
    >>> block(torch.zeros(2, 4)).shape
    torch.Size([2, 4])
    """

    def __init__(
        self,
        branch: nn.Module,
        shortcut: nn.Module,
        *,
        after: nn.Module | None = None,
        drop_path: float = 0.0,
        allow_linear_branch: bool = False,
    ) -> None:
        super().__init__()
        if not (allow_linear_branch or isinstance(shortcut, Zero)) and _is_linear(branch):
            raise ModelError(
                "a residual branch that is a single linear map adds nothing: y = Wx + x = (W + I)x "
                "is just another linear layer",
                hint="Put a non-linearity into the branch, or pass allow_linear_branch=True.",
            )
        self.branch = branch
        self.shortcut = shortcut
        self.after = after if after is not None else nn.Identity()
        self.drop_path = StochasticDepth(drop_path, "row") if drop_path else nn.Identity()
        self.checkpoint_activations = False

    def enter(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What the branch reads and what the shortcut reads: here the same."""
        return x, x

    def merge(self, shortcut: Tensor, branch: Tensor) -> Tensor:
        """Bring both sides together: here by addition."""
        return shortcut + branch

    def leave(self, x: Tensor) -> Tensor:
        """What happens after the merge."""
        return self.after(x)

    def _formula(self, x: Tensor) -> Tensor:
        x, skip = self.enter(x)
        return self.leave(self.merge(self.shortcut(skip), self.drop_path(self.branch(x))))

    def forward(self, x: Tensor) -> Tensor:
        """Map x to after(merge(shortcut(x), branch(x)))."""
        if self.checkpoint_activations and self.training and torch.is_grad_enabled():
            return checkpoint(
                self._formula, x, use_reentrant=False, context_fn=self._recompute_contexts
            )
        return self._formula(x)

    def _recompute_contexts(self) -> tuple[Any, Any]:
        return contextlib.nullcontext(), frozen_statistics(self)


def _is_linear(branch: nn.Module) -> bool:
    # A module of unknown kind may do anything in its forward: only what is known to be linear counts.
    known = (nn.Sequential, *_LINEAR_KINDS)
    return all(isinstance(module, known) for module in branch.modules())


@contextlib.contextmanager
def frozen_statistics(module: nn.Module) -> Iterator[None]:
    """Batch norms normalise by the batch but leave their running statistics alone.

    A checkpointed block runs forward twice; without this its statistics would move twice.
    """
    norms = [m for m in module.modules() if isinstance(m, _BatchNorm)]
    before = [(norm.momentum, norm.num_batches_tracked) for norm in norms]
    try:
        for norm in norms:
            # running * (1 - 0) + batch * 0: the same kernel as the first time, no bit moved.
            norm.momentum, norm.num_batches_tracked = 0.0, None
        yield
    finally:
        for norm, (momentum, batches) in zip(norms, before, strict=True):
            norm.momentum, norm.num_batches_tracked = momentum, batches
