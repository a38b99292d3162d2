"""ResNeXt-29 has the parameters and the template of Xie 2017."""

import pytest
import torch

from reslab.errors import ModelError
from reslab.models.catalog import create_model
from reslab.models.cost import count_parameters


def on_meta(name, **options):
    with torch.device("meta"):
        return create_model(name, **options)


def parameters(cardinality, width):
    """By the template [1x1, Cd; 3x3 in C groups, Cd; 1x1, 256], both doubled at each stage."""
    total, channels = 3 * 9 * 64 + 2 * 64, 64
    for stage in range(3):
        inner, out = cardinality * width * 2**stage, 256 * 2**stage
        for block in range(3):
            total += channels * inner + 9 * inner * inner // cardinality + inner * out
            total += 2 * (inner + inner + out)
            if block == 0:
                total += channels * out + 2 * out
            channels = out
    return total + channels * 10 + 10


@pytest.mark.parametrize(
    ("name", "cardinality", "printed"),
    [("resnext29_8x64d", 8, 34.4e6), ("resnext29_16x64d", 16, 68.1e6)],
)
def test_parameters_are_the_papers(name, cardinality, printed):
    counted = count_parameters(on_meta(name))
    assert counted == parameters(cardinality, 64)
    assert 0 <= counted - printed < 0.1e6  # printed with one decimal, cut off


def test_groups_and_widths_are_those_of_the_template():
    net = on_meta("resnext29_8x64d")
    convs = [stage[1].branch.conv2 for stage in net.stages]
    assert [(c.groups, c.out_channels) for c in convs] == [(8, 512), (8, 1024), (8, 2048)]
    assert [info.channels for info in net.feature_info] == [256, 512, 1024]


def test_maps_are_of_32_16_and_8_pixels():
    maps = on_meta("resnext29_8x64d").features(torch.empty(1, 3, 32, 32, device="meta"))
    assert [m.shape[-1] for m in maps.values()] == [32, 16, 8]


def test_an_impossible_depth_is_refused_with_the_nearest_legal_ones():
    with pytest.raises(ModelError, match="Nearest: 29 or 38"):
        create_model("cifar_resnext", depth=30)
