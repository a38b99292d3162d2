"""VGG nets are torchvision's, part by part, under our names."""

import pytest
import torch
import torchvision
from torch import nn

import reslab
from reslab.errors import ModelError
from reslab.models.catalog import create_model
from reslab.models.cost import count_parameters
from reslab.nn import ResidualBlock, Zero

NAMES = [f"vgg{depth}{suffix}" for depth in (11, 13, 16, 19) for suffix in ("", "_bn")]


def on_meta(name, **options):
    with torch.device("meta"):
        return create_model(name, **options)


@pytest.mark.parametrize("name", NAMES)
def test_every_tensor_has_a_torchvision_name_and_shape(name):
    with torch.device("meta"):
        theirs = getattr(torchvision.models, name)(init_weights=False).state_dict()
    ours = reslab.state_dict_for(on_meta(name), "torchvision")
    assert {k: v.shape for k, v in ours.items()} == {k: v.shape for k, v in theirs.items()}


@pytest.mark.parametrize("name", ["vgg11", "vgg16_bn"])
def test_logits_equal_torchvisions_bit_for_bit_and_weights_go_back(name):
    # A seventh of the head's width: all layers are there and 100 million weights are not.
    torch.manual_seed(0)
    theirs = getattr(torchvision.models, name)(init_weights=False, num_classes=10)
    theirs.classifier[0] = nn.Linear(512 * 49, 32)
    theirs.classifier[3] = nn.Linear(32, 32)
    theirs.classifier[6] = nn.Linear(32, 10)
    theirs.eval()
    ours = create_model(name, head_width=32, num_classes=10).eval()
    report = reslab.load_weights(ours, theirs.state_dict())
    assert report.layout == "torchvision" and report.mean == (0.485, 0.456, 0.406)
    assert not (report.missing or report.unexpected or report.skipped)
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        assert torch.equal(ours(images), theirs(images))
    theirs.load_state_dict(reslab.state_dict_for(ours, "torchvision"), strict=True)


def test_every_convolution_but_the_first_is_a_block_without_shortcut():
    blocks = [m for m in on_meta("vgg16").modules() if isinstance(m, ResidualBlock)]
    assert len(blocks) == 12
    assert all(isinstance(block.shortcut, Zero) for block in blocks)


def test_stages_end_at_each_pooling():
    maps = on_meta("vgg13").features(torch.empty(1, 3, 224, 224, device="meta"))
    assert [tuple(m.shape[1:]) for m in maps.values()] == [
        (64, 112, 112),
        (128, 56, 56),
        (256, 28, 28),
        (512, 14, 14),
        (512, 7, 7),
    ]


def test_weights_start_as_in_torchvision():
    torch.manual_seed(0)
    net = create_model("vgg11", head_width=64)
    conv = net.stages[3][1].branch.conv
    assert conv.weight.std().item() == pytest.approx((2 / (512 * 9)) ** 0.5, rel=0.01)
    assert net.head.hidden1.weight.std().item() == pytest.approx(0.01, rel=0.01)
    assert not conv.bias.any() and not net.head.classifier.bias.any()


def test_norms_add_two_parameters_a_channel():
    plain, normed = (count_parameters(on_meta("vgg", depth=11, norm=n)) for n in (False, True))
    assert normed - plain == 2 * (64 + 128 + 2 * 256 + 4 * 512)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("vgg12", {}, "Nearest: 11 or 13"),
        ("vgg11", {"norm": "batch"}, "norm is wrong"),
        ("vgg11", {"width": 0}, "width is wrong"),
        ("vgg11", {"dropout": 1.0}, "dropout is wrong"),
    ],
)
def test_what_cannot_be_built_is_refused(name, options, message):
    with pytest.raises(ModelError, match=message):
        create_model(name, **options)
