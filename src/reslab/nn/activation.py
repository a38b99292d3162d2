"""Activations by name, and the mirrored rectifier that doubles the channels.

relu      max(x, 0)
crelu     [max(x, 0); max(-x, 0)], twice the channels (Shang 2016, arXiv 1603.05201)
prelu     max(x, 0) + a * min(x, 0) with one learnt a, from 0.25 (He 2015, arXiv 1502.01852)
tanh, sigmoid
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from reslab.errors import ModelError
from reslab.registry import close_names

__all__ = ["ACTIVATIONS", "CReLU", "build_activation", "mirror_layer", "replace_activations"]


class CReLU(nn.Module):
    """[relu(x); relu(-x)]: nothing of x is lost, and weights [W, -W] behind it give W x.

    >>> CReLU()(torch.tensor([[2.0, -3.0]]))
    tensor([[2., 0., 0., 3.]])
    """

    def __init__(self, dim: int = 1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        """[..., channels, ...] -> [..., 2 * channels, ...]."""
        return torch.cat((x.relu(), (-x).relu()), self.dim)

    def extra_repr(self) -> str:
        """The dimension along which the channels lie."""
        return f"dim={self.dim}"


_BY_NAME: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "crelu": CReLU,
    "prelu": nn.PReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
}
ACTIVATIONS = tuple(_BY_NAME)


def build_activation(name: str) -> nn.Module:
    """The activation of that name; ModelError names the nearest.

    >>> build_activation("tanh")
    Tanh()
    """
    if name not in _BY_NAME:
        raise ModelError(
            "unknown activation",
            got=name,
            expected=f"one of {', '.join(ACTIVATIONS)}",
            hint=close_names(str(name), list(ACTIVATIONS)),
        )
    return _BY_NAME[name]()


def mirror_layer(layer: nn.Conv2d | nn.Linear) -> nn.Conv2d | nn.Linear:
    """A new layer of the same shape, but for twice the inputs: what reads a CReLU."""
    bias = layer.bias is not None
    if isinstance(layer, nn.Linear):
        return nn.Linear(2 * layer.in_features, layer.out_features, bias=bias)
    if layer.groups > 1:
        raise ModelError(
            "a grouped convolution cannot read a mirrored rectifier",
            got=f"groups={layer.groups}",
            expected="groups=1 with activation='crelu'",
        )
    return nn.Conv2d(
        2 * layer.in_channels,
        layer.out_channels,
        (layer.kernel_size[0], layer.kernel_size[1]),
        stride=(layer.stride[0], layer.stride[1]),
        padding=layer.padding,  # type: ignore[arg-type]  # what Conv2d took, it takes again
        bias=bias,
    )


def replace_activations(module: nn.Module, name: str, *, reads_activation: bool) -> bool:
    """Put the named activation where `module` and its parts have a ReLU.

    With "crelu" a layer that reads an activation is built anew for twice the inputs: the first one,
    where `reads_activation` says so, and those that follow a ReLU in order of registration. The
    answer is whether what comes after `module` reads an activation.
    """
    for key, child in list(module.named_children()):
        if isinstance(child, nn.ReLU):
            setattr(module, key, build_activation(name))
            reads_activation = True
        elif isinstance(child, nn.Conv2d | nn.Linear):
            if name == "crelu" and reads_activation:
                setattr(module, key, mirror_layer(child))
            reads_activation = False
        else:
            reads_activation = replace_activations(child, name, reads_activation=reads_activation)
    return reads_activation
