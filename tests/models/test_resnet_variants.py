"""ResNet-C, ResNet-D and SE nets are timm's, and the options say what they do."""

import pytest
import timm
import torch
import torchvision

import reslab
from reslab.errors import ModelError
from reslab.models.catalog import MODELS, create_model
from reslab.models.cost import count_parameters
from reslab.nn import Identity, PadShortcut, Projection, Zero
from reslab.nn.squeeze import SqueezeExcite


def on_meta(name, **options):
    with torch.device("meta"):
        return create_model(name, **options)


@pytest.mark.parametrize("name", ["resnet18d", "resnet50c", "resnet50d", "seresnet50"])
def test_logits_equal_timms_and_weights_go_back(name):
    torch.manual_seed(0)
    theirs = timm.create_model(name, pretrained=False).eval()
    ours = create_model(name).eval()
    report = reslab.load_weights(ours, theirs.state_dict())
    assert report.layout == "timm" and report.std == (0.229, 0.224, 0.225)
    assert not (report.missing or report.unexpected or report.skipped)
    images = torch.randn(2, 3, 75, 75)  # odd maps: pooling has to keep their edges
    with torch.no_grad():
        assert torch.allclose(ours(images), theirs(images), atol=1e-5)
    back = reslab.state_dict_for(ours, "timm")
    assert back.keys() == theirs.state_dict().keys()
    theirs.load_state_dict(back, strict=True)


@pytest.mark.parametrize(
    "name",
    [
        n
        for n in MODELS.names()
        if n.startswith(("seres", "res")) and MODELS.get(n).family == "imagenet_resnet"
    ],
)
def test_every_tensor_has_a_timm_name_and_shape(name):
    with torch.device("meta"):
        theirs = timm.create_model(name, pretrained=False).state_dict()
    ours = reslab.state_dict_for(on_meta(name), "timm")
    assert {k: v.shape for k, v in ours.items()} == {k: v.shape for k, v in theirs.items()}


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("resnet50d", 25_576_264),
        ("seresnet50", 28_088_024),
        ("resnext101_64x4d", 83_455_272),
    ],
)
def test_parameters_equal_the_published_ones_exactly(name, parameters):
    assert count_parameters(on_meta(name)) == parameters


def test_resnext101_64x4d_has_torchvisions_tensors():
    with torch.device("meta"):
        theirs = torchvision.models.resnext101_64x4d().state_dict()
    ours = reslab.state_dict_for(on_meta("resnext101_64x4d"), "torchvision")
    assert {k: v.shape for k, v in ours.items()} == {k: v.shape for k, v in theirs.items()}


def test_gates_add_the_parameters_of_two_layers_a_block():
    plain, gated = (count_parameters(on_meta(name)) for name in ("resnet50", "seresnet50"))
    blocks = ((3, 256), (4, 512), (6, 1024), (3, 2048))
    assert gated - plain == sum(n * (2 * c * c // 16 + c + c // 16) for n, c in blocks)


def test_gates_do_not_count_as_depth_and_a_deep_stem_counts_three():
    assert on_meta("seresnet50").depth == 50
    assert on_meta("resnet50d").depth == 52


def test_a_deep_stem_reduces_as_the_7x7_does():
    images = torch.empty(1, 3, 75, 75, device="meta")
    shapes = [on_meta("resnet50", stem=s).stem(images).shape for s in ("imagenet", "deep")]
    assert shapes[0] == shapes[1] == (1, 64, 19, 19)


def test_weights_of_a_deep_stem_adapt_to_grey_pictures():
    colour = create_model("resnet18d")
    grey = create_model("resnet18d", in_channels=1)
    report = reslab.load_weights(grey, reslab.state_dict_for(colour, "timm"), partial=True)
    assert report.adapted == ("stem.conv.weight from 3 to 1 input channels",)
    summed = colour.stem.conv.weight.sum(1, keepdim=True)
    assert torch.equal(grey.stem.conv.weight, summed)


@pytest.mark.parametrize(
    ("shortcut", "kind"), [("projection", Projection), ("zero_pad", PadShortcut)]
)
def test_a_pooled_shortcut_averages_before_it_widens(shortcut, kind):
    net = create_model("resnet20", shortcut=shortcut, shortcut_pool=True).eval()
    carried = net.stages[1][0].shortcut
    assert type(carried.widen) is kind
    assert (
        type(net.stages[1][1].shortcut) is Identity and type(net.stages[0][0].shortcut) is Identity
    )
    x = torch.randn(1, 16, 5, 5)
    means = torch.stack(
        [x[:, :, i : i + 2, j : j + 2].mean((2, 3)) for i in (0, 2, 4) for j in (0, 2, 4)], dim=2
    ).view(1, 16, 3, 3)
    with torch.no_grad():
        assert torch.allclose(carried(x), carried.widen(means), atol=1e-6)


def test_a_plain_net_has_no_shortcut_to_pool():
    net = create_model("resnet20", shortcut="none", shortcut_pool=True)
    assert all(type(block.shortcut) is Zero for stage in net.stages for block in stage)


def test_the_gate_ends_the_branch():
    net = create_model("resnet20", squeeze=4)
    for stage in net.stages:
        for block in stage:
            assert isinstance(block.branch[-1], SqueezeExcite)
    assert net.stages[2][0].branch.squeeze.reduce.weight.shape == (16, 64, 1, 1)


def test_zero_init_works_with_gates():
    net = create_model("resnet20", squeeze=4, zero_init_branch=True).eval()
    x = torch.rand(2, 16, 8, 8)
    assert torch.equal(net.stages[0][1](x), x)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stem": "depp"}, "deep"),
        ({"squeeze": 0}, "squeeze is wrong"),
        ({"squeeze": True}, "squeeze is wrong"),
        ({"shortcut_pool": 2}, "shortcut_pool is wrong"),
    ],
)
def test_what_cannot_be_built_is_refused(options, message):
    with pytest.raises(ModelError, match=message):
        create_model("resnet50", **options)
