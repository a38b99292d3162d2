"""The residual block: the one formula that every net in reslab is made of.

    x = before(x)
    y = after( merge( shortcut(x), drop_path(scale(branch(x))), x ) )

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
from reslab.nn.merge import Add
from reslab.nn.shortcut import Zero

__all__ = ["ResidualBlock", "frozen_statistics"]

_LINEAR_KINDS = (_ConvNd, nn.Linear, _BatchNorm, nn.Identity, nn.AvgPool2d, nn.Dropout, nn.Flatten)


class ResidualBlock(nn.Module):
    """y = after(merge(shortcut(x), branch(x))), He 2015 eq. 1 and 2; each part a module.

    `shortcut=Zero()` makes it a plain block. `before` is what both sides share (the norm and ReLU
    at the edges of a pre-activation net, He 2016 appendix); `after=None` leaves the sum as it is.
    `merge` brings both sides together and may look at x: addition by default, `Concat`, a gate.
    `scale` multiplies the branch (SkipInit, ReZero, LayerScale, beta-scaling); `drop_path` is the
    probability of dropping the branch of a sample in training (stochastic depth). What else `forward`
    is given, such as an attention mask, goes to the branch. `checkpoint_activations` recomputes the
    block in the backward pass to save memory.

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
        before: nn.Module | None = None,
        merge: nn.Module | None = None,
        after: nn.Module | None = None,
        scale: nn.Module | None = None,
        drop_path: float = 0.0,
        allow_linear_branch: bool = False,
    ) -> None:
        super().__init__()
        adds = merge is None and not isinstance(shortcut, Zero)
        if adds and not allow_linear_branch and _is_linear(branch):
            raise ModelError(
                "a residual branch that is a single linear map adds nothing: y = Wx + x = (W + I)x "
                "is just another linear layer",
                hint="Put a non-linearity into the branch, or pass allow_linear_branch=True.",
            )
        self.before = before if before is not None else nn.Identity()
        self.branch = branch
        self.shortcut = shortcut
        self.scale = scale if scale is not None else nn.Identity()
        self.drop_path = StochasticDepth(drop_path, "row") if drop_path else nn.Identity()
        self.merge = merge if merge is not None else Add()
        self.after = after if after is not None else nn.Identity()
        self.checkpoint_activations = False

    def _formula(self, x: Tensor, *context: Any) -> Tensor:
        x = self.before(x)
        residual = self.drop_path(self.scale(self.branch(x, *context)))
        return self.after(self.merge(self.shortcut(x), residual, x))

    def forward(self, x: Tensor, *context: Any) -> Tensor:
        """Map x to after(merge(shortcut(x), branch(x, *context)))."""
        if self.checkpoint_activations and self.training and torch.is_grad_enabled():
            return checkpoint(
                self._formula,
                x,
                *context,
                use_reentrant=False,
                context_fn=self._recompute_contexts,
            )
        return self._formula(x, *context)

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
