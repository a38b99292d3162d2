"""Initial weights: variances, orthogonality, nets that start linear, Fixup's bounded first steps."""

import math

import pytest
import torch
from torch import nn

from reslab.errors import ModelError
from reslab.models.catalog import create_model
from reslab.nn import ResidualBlock
from reslab.nn.init import init_glorot, init_he, init_orthogonal, initialise
from reslab.nn.scale import ScaleShift, Shift


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def in_float64(name, **options):
    torch.set_default_dtype(torch.float64)
    try:
        return create_model(name, **options)
    finally:
        torch.set_default_dtype(torch.float32)


def test_he_and_glorot_draw_their_variance():
    layers = nn.Sequential(nn.Linear(600, 400), nn.Conv2d(30, 50, 3))
    init_he(layers, linear=True)
    assert layers[0].weight.var().item() == pytest.approx(2 / 600, rel=0.02)
    assert layers[1].weight.var().item() == pytest.approx(2 / (50 * 9), rel=0.03)
    assert not layers[0].bias.any()
    init_glorot(layers)
    assert layers[0].weight.var().item() == pytest.approx(2 / 1000, rel=0.02)
    assert layers[1].weight.var().item() == pytest.approx(2 / (80 * 9), rel=0.03)


def test_he_leaves_linear_layers_alone_unless_asked():
    layer = nn.Linear(3, 4)
    before = layer.weight.clone()
    init_he(layer)
    assert torch.equal(layer.weight, before)


@pytest.mark.parametrize("gain", [1.0, math.sqrt(2)])
@pytest.mark.parametrize(
    "layer", [nn.Linear(9, 6), nn.Linear(6, 9), nn.Conv2d(4, 6, 3), nn.Conv2d(2, 30, 3)]
)
def test_orthogonal_weights_times_their_transpose_are_the_identity(layer, gain):
    init_orthogonal(layer.double(), gain=gain)
    w = layer.weight.flatten(1)
    product = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
    identity = gain**2 * torch.eye(len(product), dtype=torch.float64)
    assert torch.allclose(product, identity, atol=1e-12)


def test_orthogonal_makes_up_for_rectifiers_only():
    layer = nn.Linear(5, 5)
    for activation, gain in (("relu", 2), ("crelu", 2), ("tanh", 1)):
        initialise(layer, "orthogonal", activation=activation)
        assert torch.allclose(layer.weight @ layer.weight.T, gain * torch.eye(5), atol=1e-5)


PLAIN = {"norm": "none", "init": "looks_linear", "in_features": 12, "width": 20}


@pytest.mark.parametrize("depth", [10, 50])
@pytest.mark.parametrize(
    "options",
    [
        {"shortcut": "none", "activation": "crelu", "order": "post"},
        {"shortcut": "none", "activation": "crelu", "order": "pre"},
        {"shortcut": "identity", "activation": "crelu", "branch_scale": 0.1},
        {"shortcut": "none", "activation": "prelu"},
    ],
    ids=lambda o: "-".join(map(str, o.values())),
)
def test_a_looks_linear_net_is_linear_at_start(depth, options):
    net = in_float64("mlp", depth=depth, **PLAIN, **options)
    x, y = torch.randn(2, 7, 12, dtype=torch.float64)
    with torch.no_grad():
        assert torch.allclose(net(2 * x - 3 * y), 2 * net(x) - 3 * net(y), atol=1e-12)
        assert net(x).norm() > 0.1  # a net that gives zero is linear too


def test_orthogonal_mirrored_weights_keep_lengths_through_50_layers():
    net = in_float64("mlp50", **PLAIN, shortcut="none", activation="crelu")
    x = torch.randn(7, 12, dtype=torch.float64)
    with torch.no_grad():
        hidden = net.blocks(net.stem(x))
    assert torch.allclose(hidden.norm(dim=1), x.norm(dim=1), rtol=1e-10)


def test_a_rectifier_net_with_other_weights_is_not_linear():
    net = in_float64("mlp10", **(PLAIN | {"init": "he"}), activation="crelu", shortcut="none")
    x, y = torch.randn(2, 7, 12, dtype=torch.float64)
    with torch.no_grad():
        assert (net(x + y) - net(x) - net(y)).norm() > 0.1 * net(x).norm()


def test_a_looks_linear_convnet_is_linear_at_start():
    options = {"norm": "none", "init": "looks_linear", "activation": "crelu"}
    net = in_float64("plain20", **options)
    x, y = torch.randn(2, 3, 3, 12, 12, dtype=torch.float64)
    with torch.no_grad():
        assert torch.allclose(net(2 * x - 3 * y), 2 * net(x) - 3 * net(y), atol=1e-10)
        assert net(x).norm() > 0.01


FIXUP = {"in_features": 8, "width": 16, "num_classes": 4, "layers_per_block": 2, "norm": "none"}


def moved(depth, init, *, lr, steps, order):
    """How far the logits of a sample move in a few SGD steps, over lr: root mean square."""
    torch.manual_seed(0)
    net = in_float64("resmlp" + str(depth), init=init, order=order, **FIXUP)
    x, targets = torch.randn(32, 8, dtype=torch.float64), torch.arange(32) % 4
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    before = net(x).detach()
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), targets).backward()
        optimizer.step()
    return ((net(x) - before).detach().norm() / lr / 32**0.5).item()


@pytest.mark.parametrize(("order", "steps"), [("pre", 10), ("post", 10), ("pre", 1)])
def test_fixup_moves_the_net_alike_at_depth_10_100_and_1000(order, steps):
    """Bounds on |f_after - f_before| / lr at lr 0.1; the first step moves the classifier alone."""
    ratios = [moved(d, "fixup", lr=0.1, steps=steps, order=order) for d in (10, 100, 1000)]
    assert 0.4 * steps < min(ratios) and max(ratios) < 1.2 * steps


@pytest.mark.parametrize("depth", [10, 100])
def test_fixup_moves_the_net_in_proportion_to_lr(depth):
    small, large = (moved(depth, "fixup", lr=lr, steps=3, order="pre") for lr in (1e-3, 1e-2))
    assert small == pytest.approx(large, rel=0.02)


def test_he_without_norms_moves_a_thousand_times_as_far_and_explodes_with_depth():
    assert moved(10, "he", lr=1e-3, steps=1, order="pre") > 1000
    assert not math.isfinite(moved(100, "he", lr=1e-3, steps=1, order="pre"))


def test_fixup_scales_branches_by_their_number_and_puts_scalars_in():
    net = create_model("resnet29", norm="none", init="fixup", shortcut="B")
    blocks = [m for m in net.modules() if isinstance(m, ResidualBlock)]
    block = net.stages[2][1]
    std = math.sqrt(2 / (64 * 9)) * len(blocks) ** (-1 / 4)  # three layers a branch
    assert len(blocks) == 9
    assert block.branch.conv2.weight.std().item() == pytest.approx(std, rel=0.02)
    assert not block.branch.conv3.weight.any() and not net.head.classifier.weight.any()
    kinds = [type(m).__name__ for m in block.branch]
    assert kinds == ["Shift", "Conv2d", "Shift", "ReLU"] * 2 + ["Shift", "Conv2d"]
    assert isinstance(block.scale, ScaleShift)
    assert isinstance(net.stages[1][0].shortcut.shift, Shift)
    assert [type(m).__name__ for m in net.stem] == ["Conv2d", "Shift", "ReLU"]
    assert not any(isinstance(m, nn.BatchNorm2d) for m in net.modules())
    x = torch.rand(2, 256, 4, 4)
    assert torch.equal(block(x), x)


def test_fixup_works_with_a_gate_on_the_branch():
    block = create_model("resnet20", norm="none", init="fixup", squeeze=4).stages[0][0]
    x = torch.rand(2, 16, 8, 8)
    assert not block.branch.conv2.weight.any() and torch.equal(block(x), x)


def test_a_fixup_resnet_learns_16_pictures():
    net = create_model("resnet8", norm="none", init="fixup")
    x, targets = torch.randn(16, 3, 16, 16), torch.arange(16) % 10
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(70):
        loss = nn.functional.cross_entropy(net(x), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.3  # from ln 10 = 2.3


@pytest.mark.parametrize("name", ["rezero", "skipinit"])
def test_blocks_of_a_resnet_with_a_zero_scalar_return_their_input(name):
    net = create_model("resnet20", branch_scale=name)
    x = torch.rand(2, 16, 8, 8)
    assert torch.equal(net.stages[0](x), x)
    assert sum(key.endswith("scale.alpha") for key in net.state_dict()) == 9


def test_a_branch_without_norms_is_switched_off_by_its_last_layer():
    net = create_model("resnet20", norm="none", zero_init_branch=True)
    x = torch.rand(2, 16, 8, 8)
    assert torch.equal(net.stages[0](x), x)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("resnet20", {"init": "fixupp", "norm": "none"}, "Did you mean fixup"),
        ("resnet20", {"init": "fixup"}, "takes the place of norms"),
        ("resnet20", {"init": "fixup", "norm": "none", "branch_scale": 0.1}, "of other scales"),
        ("plain20", {"init": "fixup", "norm": "none"}, "needs residual branches"),
        ("resnet20", {"init": "looks_linear"}, "can start linear"),
        ("resnet20", {"norm": "nothing"}, "unknown norm"),
        ("resnet20", {"branch_scale": "rezeroo"}, "Did you mean rezero"),
        ("resnet20", {"activation": "geluu"}, "unknown activation"),
    ],
)
def test_options_that_contradict_each_other_are_refused(name, options, message):
    with pytest.raises(ModelError, match=message):
        create_model(name, **options)
