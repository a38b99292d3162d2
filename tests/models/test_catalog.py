"""Every named net equals its entry in the catalogue, and the papers' figures."""

import pytest
import timm
import torch
import torchvision

import reslab
from reslab.errors import ModelError, UnknownNameError
from reslab.models.catalog import FAMILIES, MODELS, create_model
from reslab.models.convnet import count_depth
from reslab.models.cost import measure_cost

SHARED = [
    "resnet18",
    "resnet34",
    "resnet50",
    "resnet101",
    "resnet152",
    "resnext50_32x4d",
    "resnext101_32x8d",
    "wide_resnet50_2",
    "wide_resnet101_2",
]
# He 2015, table 6 (exact counts by arithmetic) and torchvision's published counts and GMACs.
PARAMETERS = {
    "resnet20": 269_722,
    "resnet32": 464_154,
    "resnet44": 658_586,
    "resnet56": 853_018,
    "resnet110": 1_727_962,
    "resnet1202": 19_421_274,
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
    "resnext50_32x4d": 25_028_904,
    "resnext101_32x8d": 88_791_336,
    "wide_resnet50_2": 68_883_240,
    "wide_resnet101_2": 126_886_696,
}
GMACS = {
    "resnet20": 0.0406,
    "resnet32": 0.0689,
    "resnet44": 0.0972,
    "resnet56": 0.1255,
    "resnet110": 0.2529,
    "resnet1202": 2.829,
    "plain18": 1.8,
    "plain34": 3.6,
    "resnet18": 1.814,
    "resnet34": 3.664,
    "resnet50": 4.089,
    "resnet101": 7.801,
    "resnet152": 11.514,
    "resnext50_32x4d": 4.230,
    "resnext101_32x8d": 16.414,
    "wide_resnet50_2": 11.398,
    "wide_resnet101_2": 22.753,
}
PAPER_GMACS_ROUNDED = {"plain18", "plain34"}


def on_meta(name, **options):
    with torch.device("meta"):
        return create_model(name, **options)


@pytest.mark.parametrize("name", MODELS.names())
def test_the_catalogue_tells_the_truth_about_each_net(name):
    entry = MODELS.get(name)
    net = on_meta(name)
    cost = measure_cost(net, entry.input_shape, kind=FAMILIES.get(entry.family).kind)
    assert (cost.parameters, cost.macs) == (entry.parameters, entry.macs)
    assert net.depth == count_depth(net) == entry.depth


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_equal_the_published_ones_exactly(name):
    assert MODELS.get(name).parameters == PARAMETERS[name]


@pytest.mark.parametrize("name", GMACS)
def test_macs_are_within_one_percent_of_the_published_ones(name):
    tolerance = 0.02 if name in PAPER_GMACS_ROUNDED else 0.01  # printed with two digits only
    assert MODELS.get(name).macs == pytest.approx(GMACS[name] * 1e9, rel=tolerance)


@pytest.mark.parametrize("depth", [20, 32, 44, 56, 110])
def test_plain_and_residual_nets_have_the_same_parameters(depth):
    plain, residual = on_meta(f"plain{depth}"), on_meta(f"resnet{depth}")
    shapes = [{k: v.shape for k, v in net.state_dict().items()} for net in (plain, residual)]
    assert shapes[0] == shapes[1]


def test_option_b_adds_2752_parameters_to_a_cifar_net():
    a, b = (measure_cost(on_meta("resnet20", shortcut=s), (3, 32, 32)) for s in "AB")
    assert b.parameters - a.parameters == 2752


def test_option_c_projects_every_shortcut_of_resnet34():
    net = on_meta("resnet34", shortcut="C")
    kinds = [type(block.shortcut).__name__ for stage in net.stages for block in stage]
    assert kinds == ["Projection"] * 16  # thirteen more than the three of option B
    b = on_meta("resnet34", shortcut="B")
    assert sum(type(m).__name__ == "Projection" for m in b.modules()) == 3


@pytest.mark.parametrize("name", SHARED)
def test_logits_equal_torchvisions_bit_for_bit_and_weights_go_back(name):
    torch.manual_seed(0)
    theirs = getattr(torchvision.models, name)().eval()
    ours = create_model(name).eval()
    report = reslab.load_weights(ours, theirs.state_dict())
    assert report.layout == "torchvision"
    assert not (report.missing or report.unexpected or report.skipped)
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        assert torch.equal(ours(images), theirs(images))
    back = reslab.state_dict_for(ours, "torchvision")
    assert list(back) and back.keys() == theirs.state_dict().keys()
    assert all(torch.equal(back[k], v) for k, v in theirs.state_dict().items())
    theirs.load_state_dict(back, strict=True)


def test_logits_equal_timms_resnet50():
    theirs = timm.create_model("resnet50").eval()
    ours = create_model("resnet50").eval()
    reslab.load_weights(ours, theirs.state_dict())
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        assert torch.allclose(ours(images), theirs(images), atol=1e-5)


def test_any_legal_depth_can_be_asked_for_by_name():
    assert create_model("resnet26").spec.depths == (4, 4, 4)
    assert create_model("plain8").spec.shortcut == "none"
    assert create_model("resnet29").spec.block == "bottleneck"
    assert create_model("cifar_resnet", depth=50).spec.depths == (8, 8, 8)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("resnet57", {}, "Nearest: 56, 62, 65"),
        ("cifar_resnet", {"depth": 57}, "Nearest: 56 or 62"),
        ("cifar_resnet", {"depth": 3}, "Nearest: 8"),
        ("cifar_resnet", {"depth": 30, "block": "bottleneck"}, "Nearest: 29 or 38"),
        ("imagenet_resnet", {"depth": 51}, "Nearest: 50"),
        ("resnet20", {"stem": "ciphar"}, "unknown stem"),
        ("resnet20", {"shortcut": "zero_padd"}, "zero_pad"),
        ("resnet20", {"num_classes": 0}, "num_classes is wrong"),
        ("resnet20", {"drop_path": 1.5}, "drop_path is wrong"),
        ("cifar_resnet", {}, "needs a depth"),
        ("cifar_resnet", {"depth": "abc"}, "cannot be built with these options"),
        ("resnet20", {"shortcut": None}, "unknown shortcut|cannot be built"),
        ("resnet20", {"drop_path": None}, "cannot be built with these options"),
    ],
)
def test_what_cannot_be_built_is_refused_with_the_nearest_legal_value(name, options, message):
    with pytest.raises(ModelError, match=message):
        create_model(name, **options)


def test_misspelt_names_and_options_get_the_nearest_one():
    with pytest.raises(UnknownNameError, match="resnet50"):
        create_model("resnt50")
    with pytest.raises(UnknownNameError, match="num_classes"):
        create_model("resnet50", num_clases=10)


def test_the_same_seed_gives_the_same_weights():
    states = []
    for _ in range(2):
        torch.manual_seed(3)
        states.append(create_model("resnet20").state_dict())
    assert all(torch.equal(states[0][k], states[1][k]) for k in states[0])


def test_convolutions_start_with_he_variance():
    torch.manual_seed(0)
    weight = create_model("resnet18").stages[3][1].branch.conv2.weight
    assert weight.std().item() == pytest.approx((2 / (512 * 9)) ** 0.5, rel=0.01)


def test_depths_that_name_imagenet_nets_have_cifar_nets_too():
    from reslab.models.cifar_resnet import cifar_model

    for depth in (50, 152):
        shapes = []
        for kind in ("plain", "resnet"):
            name, options = cifar_model(kind, depth)
            net = on_meta(name, **options)
            assert net.spec.depth == depth and net.spec.stem == "cifar"
            shapes.append({k: v.shape for k, v in net.state_dict().items()})
        assert shapes[0] == shapes[1]
