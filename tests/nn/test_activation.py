"""Activations by name; the mirrored rectifier and the layers that read it."""

import pytest
import torch
from torch import nn

from reslab.errors import ModelError
from reslab.models.catalog import create_model
from reslab.nn.activation import (
    ACTIVATIONS,
    CReLU,
    build_activation,
    mirror_layer,
    replace_activations,
)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_each_name_computes_its_formula(name):
    x = torch.tensor([[-2.0, 0.0, 3.0]])
    expected = {
        "relu": x.clamp(min=0),
        "crelu": torch.tensor([[0.0, 0.0, 3.0, 2.0, 0.0, 0.0]]),
        "prelu": torch.tensor([[-0.5, 0.0, 3.0]]),
        "tanh": x.tanh(),
        "sigmoid": 1 / (1 + (-x).exp()),
    }
    assert torch.allclose(build_activation(name)(x), expected[name])


def test_an_unknown_activation_is_refused_with_the_nearest():
    with pytest.raises(ModelError, match="Did you mean crelu"):
        build_activation("creluu")


def test_crelu_doubles_channels_and_its_halves_differ_by_x():
    x = torch.randn(2, 3, 4, 4)
    y = CReLU()(x)
    assert y.shape == (2, 6, 4, 4) and torch.equal(y[:, :3] - y[:, 3:], x)
    assert torch.equal(CReLU(dim=-1)(x)[..., :4], x.relu())


@pytest.mark.parametrize(
    "layer",
    [
        nn.Linear(4, 5, bias=False),
        nn.Conv2d(4, 5, 3, stride=2, padding=1, bias=False),
        nn.Conv2d(4, 5, (1, 3), padding="same"),
    ],
)
def test_a_mirrored_layer_takes_twice_the_channels_and_gives_the_same_shape(layer):
    x = torch.randn(2, 4, 7, 7) if isinstance(layer, nn.Conv2d) else torch.randn(2, 4)
    twin = mirror_layer(layer)
    assert twin(CReLU()(x)).shape == layer(x).shape
    assert (twin.bias is None) == (layer.bias is None)
    with torch.no_grad():
        twin.weight.copy_(torch.cat((layer.weight, -layer.weight), 1))
        if layer.bias is not None:
            twin.bias.copy_(layer.bias)
    assert torch.allclose(twin(CReLU()(x)), layer(x), atol=1e-5)


def test_grouped_convolutions_cannot_be_mirrored():
    with pytest.raises(ModelError, match="groups=2"):
        mirror_layer(nn.Conv2d(4, 4, 3, groups=2))


def test_only_layers_behind_an_activation_are_mirrored():
    net = nn.Sequential(
        nn.Conv2d(3, 4, 1),
        nn.Sequential(nn.BatchNorm2d(4), nn.ReLU()),
        nn.Conv2d(4, 5, 1),
        nn.Conv2d(5, 6, 1),
    )
    assert replace_activations(net, "crelu", reads_activation=False) is False
    assert [net[i].in_channels for i in (0, 2, 3)] == [3, 8, 5]
    assert net(torch.zeros(1, 3, 2, 2)).shape == (1, 6, 2, 2)


@pytest.mark.parametrize("name", ["resnet29", "resnet20"])
def test_every_relu_of_a_resnet_can_be_another_activation(name):
    net = create_model(name, activation="prelu")
    kinds = [type(m).__name__ for m in net.modules()]
    relus = sum(isinstance(m, nn.ReLU) for m in create_model(name).modules())
    assert "ReLU" not in kinds and kinds.count("PReLU") == relus


def test_a_plain_net_of_mirrored_rectifiers_announces_twice_the_channels():
    net = create_model("plain8", activation="crelu").eval()
    maps = net.features(torch.randn(1, 3, 16, 16))
    assert [m.shape[1] for m in maps.values()] == [32, 64, 128]
    assert [info.channels for info in net.feature_info] == [32, 64, 128]


def test_a_residual_net_after_the_sum_cannot_be_mirrored():
    with pytest.raises(ModelError, match="doubles the channels"):
        create_model("resnet20", activation="crelu")
