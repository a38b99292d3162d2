"""The five activation orders of He 2016, table 2, as lists of layers."""

import pytest
from torch import nn

from reslab.errors import ModelError
from reslab.nn.order import ORDERS, find_order

# (branch of two convolutions, before both sides where they share it, after the sum)
LAYERS = {
    "post": ("conv1 norm1 act1 conv2 norm2", "", "act"),
    "norm_after_add": ("conv1 norm1 act1 conv2", "", "norm act"),
    "relu_before_add": ("conv1 norm1 act1 conv2 norm2 act2", "", ""),
    "relu_only_pre": ("act1 conv1 norm1 act2 conv2 norm2", "act", ""),
    "pre": ("norm1 act1 conv1 norm2 act2 conv2", "norm act", ""),
}


def convolutions():
    return [nn.Conv2d(4, 8, 3), nn.Conv2d(8, 8, 3)]


def names(module):
    return " ".join(name for name, _ in module.named_children()) if module is not None else ""


@pytest.mark.parametrize("name", ORDERS)
def test_a_branch_has_the_layers_of_table_2(name):
    order = find_order(name)
    branch = order.branch(convolutions())
    assert (names(branch), names(order.entry(4)), names(order.leave(8))) == LAYERS[name]
    norms = [m.num_features for m in branch if isinstance(m, nn.BatchNorm2d)]
    expected = {"pre": [4, 8], "norm_after_add": [8]}.get(name, [8, 8])
    assert norms == expected


@pytest.mark.parametrize("name", ORDERS)
def test_a_shared_entry_is_left_out_of_the_branch(name):
    order = find_order(name)
    entry = names(order.entry(4)).split()
    whole, rest = (names(order.branch(convolutions(), shared=s)).split() for s in (False, True))
    assert whole == [f"{kind}1" for kind in entry] + rest


@pytest.mark.parametrize("name", ORDERS)
def test_every_order_normalises_and_activates_once_a_convolution(name):
    order = find_order(name)
    layers = [*order.branch(convolutions()), *(order.leave(8) or [])]
    kinds = [type(layer).__name__ for layer in layers]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == dict.fromkeys(
        ("Conv2d", "BatchNorm2d", "ReLU"), 2
    )


def test_dropout_stands_before_every_convolution_but_the_first():
    branch = ORDERS["pre"].branch([nn.Conv2d(4, 4, 1) for _ in range(3)], dropout=0.3)
    assert names(branch) == ("norm1 act1 conv1 norm2 act2 dropout2 conv2 norm3 act3 dropout3 conv3")
    assert branch.dropout2.p == 0.3


def test_a_misspelt_order_gets_the_nearest_one():
    with pytest.raises(ModelError, match="Did you mean norm_after_add"):
        find_order("norm_after_addition")
