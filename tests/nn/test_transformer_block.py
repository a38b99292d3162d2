"""Units put the norm where they say, and start from the weights they say."""

import pytest
import torch
from torch import nn

from reslab.errors import ModelError
from reslab.nn import ResidualBlock
from reslab.nn.transformer_block import (
    FeedForwardBranch,
    LayerSpec,
    Memory,
    TransformerLayer,
    init_layer,
    residual_unit,
)


def spec(**options):
    return LayerSpec(**({"width": 8, "heads": 2, "feed_forward": 16, "dropout": 0.0} | options))


def unit(**options):
    torch.manual_seed(0)
    numbers = spec(**options)
    return residual_unit(FeedForwardBranch(numbers), numbers)


def by_hand(branch, x):
    return branch.contract(branch.expand(x).relu())


def test_post_norm_is_the_norm_of_the_sum():
    block, x = unit(), torch.randn(2, 3, 8)
    expected = nn.functional.layer_norm(x + by_hand(block.branch, x), (8,), eps=1e-6)
    assert torch.allclose(block(x), expected, atol=1e-6)


def test_pre_norm_is_the_sum_with_a_normed_branch():
    block, x = unit(norm="pre"), torch.randn(2, 3, 8)
    normed = nn.functional.layer_norm(x, (8,), eps=1e-6)
    assert torch.allclose(block(x), x + by_hand(block.branch, normed), atol=1e-6)


def test_deep_norm_multiplies_the_shortcut():
    block, x = unit(norm="deep", alpha=1.7), torch.randn(2, 3, 8)
    expected = nn.functional.layer_norm(1.7 * x + by_hand(block.branch, x), (8,), eps=1e-6)
    assert torch.allclose(block(x), expected, atol=1e-6)


def test_the_gain_goes_to_values_outputs_and_feed_forward_only():
    layers = []
    for beta in (1.0, 0.25):
        torch.manual_seed(0)
        layer = TransformerLayer(spec(), drop_paths=(0.0, 0.0, 0.0))
        init_layer(layer, beta=beta)
        layers.append(dict(layer.named_parameters()))
    for name, weight in layers[0].items():
        if weight.ndim == 2:
            is_look_up = name.endswith(("query.weight", "key.weight"))
            factor = 1.0 if is_look_up else 0.25
            assert torch.allclose(layers[1][name], weight * factor), name
        elif name.endswith("bias"):
            assert not weight.any(), name


def test_a_layer_is_two_blocks_and_a_decoders_three():
    encoder, decoder = TransformerLayer(spec()), TransformerLayer(spec(), drop_paths=(0, 0.1, 0.2))
    kinds = [sum(isinstance(m, ResidualBlock) for m in x.modules()) for x in (encoder, decoder)]
    assert kinds == [2, 3]
    rates = [decoder.cross_attention.drop_path.p, decoder.feed_forward.drop_path.p]
    assert rates == [0.1, 0.2]
    x, memory = torch.randn(2, 3, 8), torch.randn(2, 5, 8)
    assert decoder(x, None, Memory(memory)).shape == x.shape


@pytest.mark.parametrize("name", ["relu", "gelu", "gelu_tanh", "silu"])
def test_activations_are_torchs(name):
    branch = FeedForwardBranch(spec(activation=name))
    x = torch.randn(5)
    kinds = {
        "relu": x.relu(),
        "gelu": nn.functional.gelu(x),
        "gelu_tanh": nn.functional.gelu(x, approximate="tanh"),
        "silu": nn.functional.silu(x),
    }
    assert torch.equal(branch.activation(x), kinds[name])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm": "pos"}, "unknown norm.*post"),
        ({"activation": "geluu"}, "unknown activation.*gelu"),
        ({"width": 0}, "width is wrong"),
        ({"feed_forward": 2.5}, "feed_forward is wrong"),
        ({"dropout": 1.0}, "dropout is wrong"),
        ({"attention_dropout": "a"}, "attention_dropout is wrong"),
    ],
)
def test_wrong_numbers_are_refused(options, message):
    with pytest.raises(ModelError, match=message):
        spec(**options)
