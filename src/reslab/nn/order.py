"""Where norm and ReLU stand around the convolutions of a residual unit (He 2016, table 2).

    order            branch of two convolutions         after the sum
    post             conv norm ReLU conv norm           ReLU             "original", He 2015
    norm_after_add   conv norm ReLU conv                norm ReLU
    relu_before_add  conv norm ReLU conv norm ReLU      nothing
    relu_only_pre    ReLU conv norm ReLU conv norm      nothing
    pre              norm ReLU conv norm ReLU conv      nothing          "full pre-activation"

In the last two the activation belongs to the convolution that follows it, so a net has one at its
end too, and a unit may share its first one with the shortcut (He 2016, appendix).
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from reslab.errors import ModelError
from reslab.registry import close_names

__all__ = ["ORDERS", "Order", "find_order"]


@dataclass(frozen=True)
class Order:
    """An activation order: what stands before and after each convolution of a branch.

    `left` says how many of the layers after the last convolution come after the sum instead.
    """

    before: tuple[str, ...]
    after: tuple[str, ...]
    left: int = 0

    @property
    def ends_in_norm(self) -> bool:
        """Whether the last convolution has a norm inside the branch; then projections have one too."""
        return "norm" in self._last

    @property
    def ends_in_activation(self) -> bool:
        """Whether the branch can only give values from zero up."""
        return "act" in self._last

    @property
    def _last(self) -> tuple[str, ...]:
        return self.after[: len(self.after) - self.left]

    def branch(
        self, convolutions: Sequence[nn.Conv2d], *, shared: bool = False, dropout: float = 0.0
    ) -> nn.Sequential:
        """The convolutions with norms and ReLUs around them, numbered: conv1, norm1, act1, conv2...

        `shared` leaves out what stands before the first one, because the block's `before` does it.
        `dropout` is the probability of dropping a value on its way into each further convolution.

        >>> convs = [nn.Conv2d(4, 4, 3, padding=1) for _ in range(2)]
        >>> list(dict(ORDERS["pre"].branch(convs, shared=True).named_children()))
        ['conv1', 'norm2', 'act2', 'conv2']
        """
        layers = OrderedDict[str, nn.Module]()
        for number, conv in enumerate(convolutions, start=1):
            first, last = number == 1, number == len(convolutions)
            for kind in () if first and shared else self.before:
                layers[f"{kind}{number}"] = _layer(kind, conv.in_channels)
            if dropout and not first:
                layers[f"dropout{number}"] = nn.Dropout(dropout)
            layers[f"conv{number}"] = conv
            for kind in self._last if last else self.after:
                layers[f"{kind}{number}"] = _layer(kind, conv.out_channels)
        return nn.Sequential(layers)

    def entry(self, channels: int) -> nn.Sequential | None:
        """What a block's two sides share when the first activation comes before they part."""
        layers = self.before_layers(channels)
        return nn.Sequential(layers) if layers else None

    def leave(self, channels: int) -> nn.Sequential | None:
        """What comes after the sum; None where the sum is left as it is."""
        layers = _named(self.after[len(self.after) - self.left :], channels)
        return nn.Sequential(layers) if layers else None

    def before_layers(self, channels: int) -> OrderedDict[str, nn.Module]:
        """What stands before a convolution, by name: the head of the net begins with it."""
        return _named(self.before, channels)

    def after_layers(self, channels: int) -> OrderedDict[str, nn.Module]:
        """What follows a convolution, by name: the stem of the net ends with it."""
        return _named(self.after, channels)


ORDERS = {
    "post": Order((), ("norm", "act"), left=1),
    "norm_after_add": Order((), ("norm", "act"), left=2),
    "relu_before_add": Order((), ("norm", "act")),
    "relu_only_pre": Order(("act",), ("norm",)),
    "pre": Order(("norm", "act"), ()),
}


def find_order(name: str) -> Order:
    """The activation order of that name; ModelError names the nearest one."""
    if name not in ORDERS:
        raise ModelError(
            f"unknown order {name!r}",
            expected=f"one of {', '.join(ORDERS)}",
            hint=close_names(str(name), list(ORDERS)),
        )
    return ORDERS[name]


def _layer(kind: str, channels: int) -> nn.Module:
    return nn.BatchNorm2d(channels) if kind == "norm" else nn.ReLU()


def _named(kinds: tuple[str, ...], channels: int) -> OrderedDict[str, nn.Module]:
    return OrderedDict((kind, _layer(kind, channels)) for kind in kinds)
