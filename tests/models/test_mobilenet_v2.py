"""MobileNetV2 is torchvision's, and its blocks are those of the paper's figure 4."""

import pytest
import torch
import torchvision

import reslab
from reslab.errors import ModelError
from reslab.models.catalog import MODELS, create_model
from reslab.models.cost import count_parameters
from reslab.models.mobilenet_v2 import round_channels
from reslab.nn import Identity, ResidualBlock, Zero


def blocks_of(net):
    return [m for m in net.modules() if isinstance(m, ResidualBlock)]


@pytest.mark.parametrize("width_factor", [1.0, 0.35, 1.4])
def test_logits_equal_torchvisions_bit_for_bit_and_weights_go_back(width_factor):
    torch.manual_seed(0)
    theirs = torchvision.models.mobilenet_v2(width_mult=width_factor).eval()
    ours = create_model("mobilenet_v2", width_factor=width_factor).eval()
    report = reslab.load_weights(ours, theirs.state_dict())
    assert report.layout == "torchvision"
    assert not (report.missing or report.unexpected or report.skipped)
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        assert torch.equal(ours(images), theirs(images))
    back = reslab.state_dict_for(ours, "torchvision")
    assert back.keys() == theirs.state_dict().keys()
    theirs.load_state_dict(back, strict=True)


def test_parameters_equal_the_published_ones_exactly():
    entry = MODELS.get("mobilenet_v2")
    assert entry.parameters == count_parameters(create_model("mobilenet_v2")) == 3_504_872
    assert entry.macs == pytest.approx(0.301e9, rel=0.001)  # torchvision's _ops


def test_x_is_carried_where_shapes_agree_and_nothing_follows_the_addition():
    blocks = blocks_of(create_model("mobilenet_v2"))
    carried = [isinstance(block.shortcut, Identity) for block in blocks]
    # Rows of table 2: the first block of each changes the shape, all others keep it.
    rows = (1, 2, 3, 4, 3, 3, 1)
    assert carried == [number > 0 for row in rows for number in range(row)]
    assert all(
        isinstance(b.shortcut, Zero) for b, kept in zip(blocks, carried, strict=True) if not kept
    )
    assert all(type(block.after) is torch.nn.Identity for block in blocks)


def test_a_carried_x_comes_through_a_silent_branch_unchanged():
    block = create_model("mobilenet_v2").eval().stages[1][1]
    torch.nn.init.zeros_(block.branch.norm3.weight)
    x = torch.randn(2, 24, 8, 8)
    assert torch.equal(block(x), x)


def test_projections_are_linear():
    for block in blocks_of(create_model("mobilenet_v2")):
        assert [name for name, _ in block.branch.named_children()][-2:] == ["project", "norm3"]


@pytest.mark.parametrize(
    ("channels", "rounded"),
    [(32, 32), (44.8, 48), (33.6, 32), (11.2, 16), (8.4, 8), (1, 8), (12, 16)],
)
def test_channels_round_to_eights_and_lose_a_tenth_at_most(channels, rounded):
    assert round_channels(channels) == rounded
    assert rounded >= 0.9 * channels and rounded % 8 == 0


def test_narrow_nets_keep_the_last_1280_channels():
    widths = [
        create_model("mobilenet_v2", width_factor=f).head.conv.out_channels for f in (0.5, 1.4)
    ]
    assert widths == [1280, 1792]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width_factor": 0}, "width_factor is wrong"),
        ({"dropout": -0.1}, "dropout is wrong"),
        ({"num_classes": 1.5}, "num_classes is wrong"),
    ],
)
def test_what_cannot_be_built_is_refused(options, message):
    with pytest.raises(ModelError, match=message):
        create_model("mobilenet_v2", **options)
