"""He 2016: identity mappings, every shortcut of table 1 and every order of table 2."""

import pytest
import torch
from torch import nn

from reslab.errors import ModelError
from reslab.models.catalog import create_model, known_options
from reslab.models.cost import count_parameters
from reslab.nn import Identity, PadShortcut, Projection, ResidualBlock
from reslab.nn.order import ORDERS

# Channels into and out of the 54 two-layer units of ResNet-110.
UNITS = [(16, 16)] * 18 + [(16, 32)] + [(32, 32)] * 17 + [(32, 64)] + [(64, 64)] * 17
GATES = sum(read * given + given for read, given in UNITS)
CONV1X1 = sum(read * given + 2 * given for read, given in UNITS)  # with a norm: option C
TABLE_1 = [
    ({}, 0),
    ({"shortcut": "none"}, 0),
    ({"shortcut": "constant"}, 0),
    ({"shortcut": "constant", "branch_scale": 0.5}, 0),
    ({"shortcut": "exclusive_gate", "gate_bias": 0.0}, GATES),
    ({"shortcut": "exclusive_gate", "gate_bias": -6.0}, GATES),
    ({"shortcut": "exclusive_gate", "gate_bias": -7.0}, GATES),
    ({"shortcut": "shortcut_gate", "gate_bias": 0.0}, GATES),
    ({"shortcut": "shortcut_gate", "gate_bias": -6.0}, GATES),
    ({"shortcut": "conv1x1"}, CONV1X1),
    ({"shortcut": "dropout"}, 0),
]
SHORTCUTS = sorted({options.get("shortcut", "identity") for options, _ in TABLE_1})


def blocks_of(net):
    return [module for module in net.modules() if isinstance(module, ResidualBlock)]


def outputs(net, images):
    """What each block and each branch gave, and the image batch's logits."""
    seen = {}
    for block in blocks_of(net):
        for module in (block, block.branch):
            module.register_forward_hook(lambda m, x, y: seen.__setitem__(m, y))
    net(images)
    return seen


def backward(net, side=8):
    images = torch.randn(2, 3, side, side)
    net(images).logsumexp(1).mean().backward()
    return [
        name for name, p in net.named_parameters() if p.grad is None or not p.grad.isfinite().all()
    ]


@pytest.mark.parametrize(("options", "added"), TABLE_1)
def test_resnet110_with_each_shortcut_of_table_1_counts_by_arithmetic(options, added):
    with torch.device("meta"):
        net = create_model("preresnet110", order="post", **options)
    assert count_parameters(net) == 1_727_962 + added
    assert len(blocks_of(net)) == len(UNITS) and net.depth == 110


@pytest.mark.parametrize("options", [options for options, _ in TABLE_1])
def test_resnet110_with_each_shortcut_of_table_1_learns(options):
    torch.manual_seed(0)
    assert not backward(create_model("preresnet110", order="post", **options), side=4)


@pytest.mark.parametrize("block", ["basic", "bottleneck"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shortcut", SHORTCUTS)
def test_every_shortcut_goes_with_every_order(block, order, shortcut):
    torch.manual_seed(0)
    depth = {"basic": 8, "bottleneck": 11}[block]
    net = create_model("preresnet", depth=depth, block=block, order=order, shortcut=shortcut)
    assert not backward(net)


def bottleneck_count(order, units):
    """Parameters of a net of `units` bottlenecks a stage, layer by layer."""
    total, read = 3 * 9 * 16 + (0 if order == "pre" else 2 * 16), 16
    for width in (16, 32, 64):
        for unit in range(units):
            given = 4 * width
            total += read * width + 9 * width**2 + width * given
            total += 2 * (width + width + (read if order == "pre" else given))
            if unit == 0:
                total += read * given
                total += 0 if order in ("pre", "norm_after_add") else 2 * given
            read = given
    return total + (2 * 256 if order == "pre" else 0) + 256 * 10 + 10


@pytest.mark.parametrize("order", ORDERS)
def test_the_orders_of_table_2_count_by_arithmetic(order):
    with torch.device("meta"):
        basic = create_model("preresnet110", order=order)
        bottleneck = create_model("preresnet164", order=order)
    # One norm a convolution in every order: what leaves the stem in `pre` comes back in the head.
    assert count_parameters(basic) == 1_727_962
    assert count_parameters(bottleneck) == bottleneck_count(order, 18)


def test_the_papers_deep_nets_have_the_parameters_of_the_arithmetic():
    assert bottleneck_count("pre", 18) == 1_703_258
    assert bottleneck_count("pre", 111) == 10_327_706


@pytest.mark.parametrize(("depth", "block"), [(20, "basic"), (29, "bottleneck")])
def test_the_post_order_is_the_net_of_2015(depth, block):
    torch.manual_seed(0)
    theirs = create_model("cifar_resnet", depth=depth, block=block).eval()
    ours = create_model("preresnet", depth=depth, block=block, order="post").eval()
    ours.load_state_dict(theirs.state_dict(), strict=True)
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(ours(images), theirs(images))


def test_any_later_input_is_an_earlier_one_plus_the_branches_between():
    """Equation 4: x_L = x_l + sum of F(x_i), for every pair of units of a stage."""
    torch.manual_seed(0)
    net = create_model("preresnet", depth=32).double()
    seen = outputs(net, torch.randn(2, 3, 16, 16, dtype=torch.float64))
    for stage in net.stages:
        for begin in range(len(stage)):
            for end in range(begin + 1, len(stage)):
                branches = sum(seen[block.branch] for block in stage[begin + 1 : end + 1])
                assert torch.allclose(seen[stage[end]], seen[stage[begin]] + branches, atol=1e-12)


def test_a_scaled_shortcut_multiplies_the_earlier_input_by_the_factors():
    """Equations 7 and 8: with zero branches, x_L is the product of the factors times x_l."""
    torch.manual_seed(0)
    net = create_model("preresnet", depth=20, shortcut="constant", shortcut_scale=0.5)
    for block in blocks_of(net):
        nn.init.zeros_(block.branch.conv2.weight)
    x = torch.randn(2, 32, 8, 8)
    assert torch.equal(net.stages[1][1:](x), x / 4)


def test_the_first_unit_of_a_preactivation_net_shares_its_activation():
    torch.manual_seed(0)
    net = create_model("preresnet", depth=14)
    read = {}
    first = net.stages[0][0]
    for side in ("branch", "shortcut"):
        getattr(first, side).register_forward_hook(
            lambda m, x, y, side=side: read.__setitem__(side, x[0])
        )
    net(torch.randn(2, 3, 8, 8))
    assert torch.equal(read["branch"], read["shortcut"]) and read["branch"].min() == 0
    assert [type(m) for m in first.before] == [nn.BatchNorm2d, nn.ReLU]
    assert all(isinstance(block.before, nn.Identity) for block in blocks_of(net)[1:])
    assert [type(m) for m in net.stem] == [nn.Conv2d]
    assert [type(m) for m in net.head][:2] == [nn.BatchNorm2d, nn.ReLU]


def test_projections_of_preactivation_nets_read_the_activated_input_and_have_no_norm():
    net = create_model("preresnet164")
    projected = [b for b in blocks_of(net) if isinstance(b.shortcut, Projection)]
    assert projected == [stage[0] for stage in net.stages]
    for block in projected:
        assert [type(m) for m in block.before] == [nn.BatchNorm2d, nn.ReLU]
        assert isinstance(block.shortcut.norm, nn.Identity)
    basic = create_model("preresnet", depth=20)
    assert [type(stage[0].shortcut) for stage in basic.stages] == [
        Identity,
        PadShortcut,
        PadShortcut,
    ]


@pytest.mark.parametrize("order", ORDERS)
def test_one_layer_skips_give_each_convolution_a_shortcut(order):
    torch.manual_seed(0)
    net = create_model("preresnet", depth=20, order=order, one_layer_skips=True)
    blocks = blocks_of(net)
    assert len(blocks) == 18 and net.depth == 20
    assert all(sum(isinstance(m, nn.Conv2d) for m in b.branch) == 1 for b in blocks)
    assert not backward(net)
    with torch.device("meta"):
        deep = create_model("preresnet110", order=order, one_layer_skips=True)
    assert count_parameters(deep) == 1_727_962


def test_a_dropout_shortcut_drops_half_in_training_and_nothing_afterwards():
    torch.manual_seed(0)
    shortcut = create_model("preresnet", depth=8, shortcut="dropout").stages[0][0].shortcut
    x = torch.ones(2, 16, 32, 32)
    assert 0.48 < (shortcut(x) == 0).float().mean() < 0.52
    assert torch.equal(shortcut.eval()(x), x)


@pytest.mark.parametrize("shortcut", ["exclusive_gate", "shortcut_gate"])
def test_the_initial_bias_of_all_gates_is_an_option(shortcut):
    net = create_model("preresnet", depth=14, shortcut=shortcut, gate_bias=-3.0)
    gates = [m for name, m in net.named_modules() if name.endswith(".gate")]
    assert len(gates) == 6
    assert all((gate.bias == -3).all() for gate in gates)


def test_an_exclusively_gated_block_is_the_gated_mean_of_its_sides():
    torch.manual_seed(0)
    net = create_model("preresnet", depth=8, order="post", shortcut="exclusive_gate").eval()
    block = net.stages[1][0]
    x = torch.randn(2, 16, 8, 8)
    with torch.no_grad():
        g = torch.sigmoid(block.merge.gate(x))
        expected = (g * block.branch(x) + (1 - g) * block.shortcut(x)).relu()
        assert torch.allclose(block(x), expected, atol=1e-6)


@pytest.mark.parametrize("block", ["basic", "bottleneck"])
@pytest.mark.parametrize("order", [name for name in ORDERS if name != "relu_before_add"])
def test_zero_init_starts_branches_at_zero_and_lets_gradients_in(order, block):
    torch.manual_seed(0)
    depth = {"basic": 8, "bottleneck": 11}[block]
    net = create_model("preresnet", depth=depth, block=block, order=order, zero_init_branch=True)
    seen = outputs(net, torch.randn(2, 3, 8, 8))
    assert all(seen[block.branch].count_nonzero() == 0 for block in blocks_of(net))
    net(torch.randn(2, 3, 8, 8)).logsumexp(1).sum().backward()
    assert all(list(b.branch)[-1].weight.grad.count_nonzero() > 0 for b in blocks_of(net))


def test_checkpointing_repeats_the_same_dropout():
    torch.manual_seed(0)
    nets = [
        create_model("preresnet", depth=8, shortcut="dropout", checkpoint_activations=saves)
        for saves in (False, True)
    ]
    nets[1].load_state_dict(nets[0].state_dict())
    images = torch.randn(4, 3, 8, 8)
    for net in nets:
        torch.manual_seed(1)
        net(images).logsumexp(1).sum().backward()
    pairs = zip(*(net.parameters() for net in nets), strict=True)
    assert all(torch.equal(a.grad, b.grad) for a, b in pairs)


def test_the_depth_chooses_the_block():
    depths = (20, 110, 29, 164, 1001)
    with torch.device("meta"):
        nets = [create_model("preresnet", depth=depth) for depth in depths]
    assert [net.spec.block for net in nets] == ["basic"] * 2 + ["bottleneck"] * 3
    assert [net.depth for net in nets] == list(depths)
    assert create_model("preresnet26").spec.depths == (4, 4, 4)
    assert "depth" not in known_options("preresnet164")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 57}, "Nearest: 56 or 62"),
        ({"depth": 20, "order": "preact"}, "Did you mean pre"),
        ({"depth": 20, "shortcut": "constnat"}, "Did you mean constant"),
        ({"depth": 20, "shape_change": "pad"}, "zero_pad"),
        ({"depth": 20, "gate_bias": -3.0}, "has no effect with shortcut='identity'"),
        ({"depth": 20, "shortcut": "dropout", "shortcut_scale": 1.0}, "belongs to constant"),
        ({"depth": 20, "shortcut": "constant", "shortcut_scale": float("inf")}, "finite"),
        ({"depth": 20, "shortcut": "dropout", "shortcut_dropout": 1.0}, "0 up to below 1"),
        ({"depth": 20, "branch_scale": "bta"}, "Did you mean beta"),
        ({"depth": 20, "num_classes": 0}, "num_classes is wrong"),
        ({"depth": 20, "one_layer_skips": 1}, "one_layer_skips is wrong"),
        ({"depth": 29, "one_layer_skips": True}, "needs basic blocks"),
        ({"depth": 20, "order": "relu_before_add", "zero_init_branch": True}, "start at zero"),
    ],
)
def test_what_cannot_be_built_is_refused(options, message):
    with pytest.raises(ModelError, match=message):
        create_model("preresnet", **options)
