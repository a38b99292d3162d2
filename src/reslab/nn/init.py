"""Initial weights, each with its source; `initialise` takes them by name.

he            N(0, 2 / fan): keeps the variance through rectifiers (arXiv 1502.01852)
glorot        N(0, 2 / (fan_in + fan_out)), for tanh and sigmoid (Glorot & Bengio 2010)
orthogonal    W W^T = gain^2 I (Saxe 2013, arXiv 1312.6120)
looks_linear  orthogonal and mirrored: the net starts linear (Balduzzi 2017, arXiv 1702.08591)
fixup         branches start at zero, sized for a net without norms (arXiv 1901.09321)
"""

from collections import OrderedDict

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from reslab.errors import ModelError
from reslab.nn.activation import CReLU
from reslab.nn.block import ResidualBlock
from reslab.nn.scale import ScaleShift, Shift
from reslab.registry import close_names

__all__ = [
    "INITS",
    "add_fixup_scalars",
    "check_init",
    "init_dirac",
    "init_fixup",
    "init_glorot",
    "init_he",
    "init_looks_linear",
    "init_orthogonal",
    "init_zero_branches",
    "initialise",
    "remove_norms",
    "shifted",
]

INITS = ("he", "glorot", "orthogonal", "looks_linear", "fixup")
_WEIGHTED = (nn.Conv2d, nn.Linear)
_ACTIVATIONS = (nn.ReLU, CReLU, nn.PReLU, nn.Tanh, nn.Sigmoid)


def init_he(model: nn.Module, *, linear: bool = False) -> None:
    """Convolutions from N(0, 2 / fan_out) (He et al. 2015, arXiv 1502.01852); norms 1 and 0.

    `linear=True` draws Linear layers from N(0, 2 / fan_in) too and sets their biases to 0; without
    it they keep torch's own start, as the papers' classifiers do.
    """
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(module, _BatchNorm):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)
        elif linear and isinstance(module, nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            _zero_bias(module)


def init_glorot(model: nn.Module) -> None:
    """Weights from N(0, 2 / (fan_in + fan_out)) (Glorot & Bengio 2010); biases 0."""
    for layer in _layers(model):
        nn.init.xavier_normal_(layer.weight)
        _zero_bias(layer)


def init_orthogonal(model: nn.Module, *, gain: float = 1.0) -> None:
    """Weights with W W^T = gain^2 I, or W^T W where a layer gives more than it takes; biases 0.

    Saxe et al. 2013, arXiv 1312.6120. A convolution's W is [out_channels, in_channels * k * k]. Gain 1
    keeps lengths in a linear net; sqrt(2) makes up for the half that rectifiers cut away.
    """
    for layer in _layers(model):
        nn.init.orthogonal_(layer.weight, gain=gain)
        _zero_bias(layer)


def init_looks_linear(model: nn.Module) -> None:
    """The net starts as a linear map (Balduzzi et al. 2017, arXiv 1702.08591, section on LL init).

    Weights are orthogonal; those that read a CReLU are mirrored, [W, -W], since
    W relu(x) - W relu(-x) = W x. PReLUs start with slope 1. Biases are 0. A layer reads a CReLU when
    no other layer is registered between them.
    """
    mirrored = False
    for module in model.modules():
        if isinstance(module, CReLU):
            mirrored = True
        elif isinstance(module, nn.PReLU):
            nn.init.ones_(module.weight)
        elif isinstance(module, _WEIGHTED):
            _orthogonal_mirrored(module.weight) if mirrored else nn.init.orthogonal_(module.weight)
            _zero_bias(module)
            mirrored = False


def _orthogonal_mirrored(weight: Tensor) -> None:
    with torch.no_grad():
        half = weight.new_empty(weight.shape[0], weight.shape[1] // 2, *weight.shape[2:])
        nn.init.orthogonal_(half)
        weight.copy_(torch.cat((half, -half), 1))


def init_fixup(model: nn.Module) -> None:
    """Fixup's rules 1 and 2 for L residual branches of m layers (Zhang 2019, arXiv 1901.09321).

    The last layer of each branch and the classifier, the model's last Linear, start at 0; the other
    layers of a branch are He's times L^(-1 / (2m - 2)). Rule 3, scalar biases and multipliers, is
    `add_fixup_scalars`. The authors train those scalars with a tenth of the learning rate; that is
    for whoever builds the optimiser.
    """
    init_he(model, linear=True)
    branches = [m.branch for m in model.modules() if isinstance(m, ResidualBlock)]
    with torch.no_grad():
        for branch in branches:
            *others, last = _layers(branch)
            for layer in others:
                layer.weight.mul_(len(branches) ** (-1 / (2 * len(others))))
            last.weight.zero_()
        classifier = [m for m in model.modules() if isinstance(m, nn.Linear)][-1]
        classifier.weight.zero_()


def add_fixup_scalars(block: ResidualBlock) -> None:
    """Fixup's rule 3: a scalar bias before each layer and activation, a multiplier a branch.

    The branch must be a Sequential, its norms already removed. The bias behind the multiplier is the
    one before the activation that follows the sum. A shortcut with weights gets a bias before them.
    """
    if not isinstance(block.branch, nn.Sequential):
        raise ModelError(
            "Fixup needs branches that are sequences of layers", got=type(block.branch).__name__
        )
    block.branch = shifted(block.branch)
    block.scale = ScaleShift()
    if _layers(block.shortcut):
        block.shortcut = nn.Sequential(OrderedDict(shift=Shift(), projection=block.shortcut))


def shifted(layers: nn.Sequential, *, first: bool = True) -> nn.Sequential:
    """The same modules with a `Shift` before each layer and activation; what is Identity goes.

    `first=False` leaves the first layer without, since a stem reads images.
    """
    result = OrderedDict[str, nn.Module]()
    for name, module in layers.named_children():
        if isinstance(module, nn.Identity):
            continue
        if isinstance(module, nn.Sequential):
            result[name] = shifted(module, first=first or bool(result))
            continue
        if isinstance(module, _WEIGHTED + _ACTIVATIONS) and (first or result):
            result[f"shift_{name}"] = Shift()
        result[name] = module
    return nn.Sequential(result)


def remove_norms(module: nn.Module) -> None:
    """Put an Identity where `module` and its parts have a batch norm."""
    for parent in module.modules():
        for name, child in parent.named_children():
            if isinstance(child, _BatchNorm):
                setattr(parent, name, nn.Identity())


def init_zero_branches(model: nn.Module) -> None:
    """The last norm of each branch starts at zero, so that each block starts as its shortcut.

    A branch without batch norms gets a last layer of zero instead.
    """
    for module in model.modules():
        if isinstance(module, ResidualBlock):
            norms = [m for m in module.branch.modules() if isinstance(m, _BatchNorm)]
            nn.init.zeros_((norms or _layers(module.branch))[-1].weight)


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


def initialise(model: nn.Module, name: str, *, activation: str = "relu") -> None:
    """Draw all weights anew by one of `INITS`; orthogonal gets the gain of the activation.

    >>> layer = nn.Linear(2, 2)
    >>> initialise(layer, "orthogonal", activation="tanh")
    >>> torch.allclose(layer.weight @ layer.weight.T, torch.eye(2), atol=1e-6)
    True
    """
    if name == "he":
        init_he(model, linear=True)
    elif name == "glorot":
        init_glorot(model)
    elif name == "orthogonal":
        init_orthogonal(model, gain=2**0.5 if activation in ("relu", "crelu") else 1.0)
    elif name == "looks_linear":
        init_looks_linear(model)
    else:
        init_fixup(model)


def check_init(
    init: str, *, norm: str, activation: str, branch_scale: str | float, residual: bool
) -> None:
    """ModelError for an unknown init, or one that these options make pointless or impossible."""
    if init not in INITS:
        raise ModelError(
            "unknown init",
            got=init,
            expected=f"one of {', '.join(INITS)}",
            hint=close_names(str(init), list(INITS)),
        )
    if init == "looks_linear" and activation not in ("crelu", "prelu"):
        raise ModelError(
            "looks_linear needs an activation that can start linear",
            got=activation,
            expected="activation='crelu' or 'prelu'",
        )
    if init == "fixup" and not residual:
        raise ModelError("fixup needs residual branches", hint="Use shortcut='identity'.")
    if init == "fixup" and (norm, branch_scale) != ("none", "none"):
        raise ModelError(
            "fixup takes the place of norms and of other scales",
            got=f"norm={norm!r}, branch_scale={branch_scale!r}",
            expected="'none' for both",
        )


def _layers(module: nn.Module) -> list[nn.Conv2d | nn.Linear]:
    return [m for m in module.modules() if isinstance(m, _WEIGHTED)]


def _zero_bias(layer: nn.Conv2d | nn.Linear) -> None:
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
