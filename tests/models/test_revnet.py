"""Reversible nets: the inverse, equal gradients, memory that does not grow with the blocks."""

import copy

import pytest
import torch
from torch import nn

from reslab.errors import ModelError
from reslab.models.catalog import create_model
from reslab.nn import PadShortcut
from reslab.nn.reversible import CoupledBlock, ReversibleSequence

SMALL = {"widths": (8, 16, 16), "stem_width": 8}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def pair(depth=38, **options):
    """The same net twice: storing activations, and recomputing them."""
    plain = create_model("revnet", depth=depth, reversible=False, **(SMALL | options))
    saving = create_model("revnet", depth=depth, **(SMALL | options))
    saving.load_state_dict(plain.state_dict())
    return plain, saving


def with_dropout(net):
    for block in net.modules():
        if isinstance(block, CoupledBlock):
            for function in (block.f, block.g):
                function.add_module("dropout", nn.Dropout(0.3))
    return net


def gradients(net, x, *, autocast=False):
    torch.manual_seed(5)
    x = x.clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        loss = net(x).float().square().sum()
    loss.backward()
    return [x.grad, *(p.grad for p in net.parameters())]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(("depth", "dtype"), [(38, torch.float32), (110, torch.float64)])
def test_the_inverse_gives_the_input_back(depth, dtype, training):
    net = create_model("revnet", depth=depth, **SMALL).to(dtype)
    with torch.no_grad():
        for _ in range(3):
            net(torch.randn(4, 3, 8, 8, dtype=dtype))
        sequence = net.train(training).stages[0][0]
        x = torch.randn(4, 8, 8, 8, dtype=dtype)
        y = sequence(x)
        assert len(sequence) == depth // 12 and (y - x).abs().max() > 1
        assert torch.allclose(sequence.inverse(y), x, atol=1e-5)


def test_a_block_is_the_papers_two_equations():
    block = create_model("revnet14", **SMALL).eval().stages[0][0][0]
    x1, x2 = torch.randn(2, 3, 4, 8, 8)
    y1 = x1 + block.f(x2)
    assert torch.equal(block(torch.cat((x1, x2), 1)), torch.cat((y1, x2 + block.g(y1)), 1))


@pytest.mark.parametrize("change", [lambda net: net, with_dropout], ids=["as it is", "dropout"])
def test_gradients_and_statistics_equal_those_of_the_plain_computation(change):
    nets = [change(net).double() for net in pair()]
    x = torch.randn(4, 3, 8, 8, dtype=torch.float64)
    ours, theirs = gradients(nets[1], x), gradients(nets[0], x)
    assert all(
        torch.allclose(a, b, atol=1e-5, rtol=1e-5) for a, b in zip(ours, theirs, strict=True)
    )
    assert max(g.abs().max() for g in theirs) > 1
    for (name, ours), theirs in zip(nets[1].named_buffers(), nets[0].buffers(), strict=True):
        assert torch.equal(ours, theirs), name


def test_random_numbers_after_the_backward_pass_are_those_of_the_plain_computation():
    x, drawn = torch.randn(4, 3, 8, 8), []
    for net in pair():
        gradients(with_dropout(net), x)
        drawn.append(torch.rand(3))
    assert torch.equal(*drawn)


def test_gradients_under_autocast_are_as_near_as_bf16_allows():
    plain, saving = pair()
    exact = copy.deepcopy(plain)
    x = torch.randn(4, 3, 8, 8)
    ours, theirs = gradients(saving, x, autocast=True), gradients(plain, x, autocast=True)
    flat = [
        torch.cat([g.flatten() for g in found]) for found in (ours, theirs, gradients(exact, x))
    ]
    assert (flat[0] - flat[1]).norm() < (flat[1] - flat[2]).norm()
    assert all(g.any() for g in ours)


def test_the_backward_pass_may_lie_inside_autocast():
    nets = pair()
    x = torch.randn(4, 3, 8, 8)
    outside = gradients(nets[1], x, autocast=True)
    torch.manual_seed(5)
    twin = pair()[1]
    twin.load_state_dict(nets[0].state_dict())
    inside = x.clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        twin(inside).float().square().sum().backward()
    assert torch.allclose(inside.grad, outside[0], rtol=0.1, atol=0.05 * outside[0].abs().max())
    assert all(p.grad.any() for p in twin.parameters())


def saved_bytes(depth, *, reversible):
    """Bytes that autograd keeps between forward and backward, parameters not counted."""
    net = create_model("revnet", depth=depth, reversible=reversible, **SMALL)
    own = {p.data_ptr() for p in net.parameters()}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = (storage.nbytes(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = net(torch.randn(4, 3, 16, 16)).sum()
    loss.backward()
    return sum(size for size, _ in kept.values())


def test_four_times_the_blocks_save_no_byte_more():
    saving = [saved_bytes(depth, reversible=True) for depth in (26, 38, 98)]
    plain = [saved_bytes(depth, reversible=False) for depth in (26, 98)]
    assert saving[0] == saving[1] == saving[2]
    assert plain[1] > 3 * plain[0] and plain[0] > 1.5 * saving[0]


def test_frozen_parameters_get_no_gradient_and_the_others_the_same():
    plain, saving = pair()
    for net in (plain, saving):
        net.requires_grad_(False)
        net.stages[0][0][1].g.conv2.requires_grad_(True)
        net(torch.ones(2, 3, 8, 8)).sum().backward()
    ours, theirs = ([p.grad for p in net.parameters()] for net in (saving, plain))
    assert [g is None for g in ours] == [g is None for g in theirs]
    found = [(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None]
    assert len(found) == 1 and torch.allclose(*found[0], atol=1e-5)


def test_parameters_shared_by_f_and_g_get_the_sum_of_both_gradients():
    function = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    x, found = torch.randn(5, 6), []
    for saves in (True, False):
        sequence = ReversibleSequence(
            CoupledBlock(function, function), CoupledBlock(function, nn.Tanh()), saves_memory=saves
        )
        function.zero_grad()
        sequence(x).square().sum().backward()
        found.append(function[0].weight.grad)
    assert torch.allclose(*found, atol=1e-5)


def test_down_sampling_blocks_store_their_activations():
    net = create_model("revnet38")
    kinds = [[type(part).__name__ for part in stage] for stage in net.stages]
    assert kinds == [["ReversibleSequence"], *[["CoupledBlock", "ReversibleSequence"]] * 2]
    block = net.stages[2][0]
    assert isinstance(block.shortcut, PadShortcut) and not block.is_reversible
    with pytest.raises(ModelError, match="no inverse"):
        block.inverse(torch.zeros(1, 112, 8, 8))
    with pytest.raises(ModelError, match="keep the shape"):
        ReversibleSequence(block)


def test_the_authors_widths_are_those_of_the_named_nets():
    nets = {d: create_model(f"revnet{d}") for d in (38, 110)}
    assert nets[38].spec.widths == (32, 64, 112) and nets[38].spec.depths == (3, 3, 3)
    assert nets[110].spec.widths == (32, 64, 128) and nets[110].spec.depths == (9, 9, 9)
    assert all(net.stem.conv.out_channels == 32 for net in nets.values())


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("revnet40", {}, "Nearest: 38 or 50"),
        ("revnet2", {}, "Nearest: 14"),
        ("revnet38", {"widths": (32, 63, 112)}, "even number"),
        ("revnet38", {"widths": (32, 64)}, "three stages"),
        ("revnet38", {"widths": (64, 32, 112)}, "must not fall"),
        ("revnet38", {"num_classes": 0}, "num_classes is wrong"),
        ("revnet38", {"reversible": "yes"}, "reversible is wrong"),
    ],
)
def test_what_cannot_be_built_is_refused(name, options, message):
    with pytest.raises(ModelError, match=message):
        create_model(name, **options)
