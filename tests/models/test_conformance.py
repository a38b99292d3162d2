"""One checker through which every family goes; a family's `smallest` net stands for it."""

import copy
import math
import pickle

import pytest
import torch

from reslab.models.catalog import FAMILIES, MODELS, create_model, known_options
from reslab.models.convnet import ConvNet
from reslab.models.cost import example_inputs
from reslab.nn import ResidualBlock

NAMED = [n for n in MODELS.names() if MODELS.get(n).parameters < 12e6 and MODELS.get(n).macs < 2e9]


def small(family, *, batch=2, **options):
    """The net that the family names as its smallest, and samples for it."""
    torch.manual_seed(0)
    entry = FAMILIES.get(family)
    net = create_model(family, **(entry.smallest | options))
    return net, example_inputs(entry.kind, entry.smallest_shape, batch=batch)


def loss_of(logits):
    return logits.float().logsumexp(-1).mean()


@pytest.mark.parametrize("family", FAMILIES.names())
def test_backward_state_round_trip_pickle_copy_and_repr(family):
    net, inputs = small(family)
    loss_of(net(*inputs)).backward()
    missing = [n for n, p in net.named_parameters() if p.requires_grad and p.grad is None]
    assert not missing
    assert all(torch.isfinite(p.grad).all() for p in net.parameters() if p.grad is not None)
    other, _ = small(family)
    other.load_state_dict(net.state_dict(), strict=True)
    net.eval()
    copies = (other.eval(), pickle.loads(pickle.dumps(net)), copy.deepcopy(net))
    with torch.no_grad():
        assert all(torch.equal(twin(*inputs), net(*inputs)) for twin in copies)
    assert f"depth={net.depth}" in repr(net)
    assert net.origin.name == family and net.origin.options == FAMILIES.get(family).smallest


@pytest.mark.parametrize("name", NAMED)
def test_every_named_net_computes_logits_for_its_input(name):
    entry = MODELS.get(name)
    with torch.device("meta"):
        net = create_model(name).eval()
    shapes = example_inputs(FAMILIES.get(entry.family).kind, entry.input_shape)
    assert net(*(x.to("meta") for x in shapes)).shape[0] == 2


@pytest.mark.parametrize("family", FAMILIES.names())
def test_same_seed_same_weights(family):
    states = [small(family)[0].state_dict() for _ in range(2)]
    assert all(torch.equal(states[0][k], states[1][k]) for k in states[0])


@pytest.mark.parametrize("family", FAMILIES.names())
def test_64_samples_are_learnt_by_heart(family):
    """One optimisation test a family: the loss falls to near zero."""
    net, inputs = small(family, batch=64)
    logits = net(*inputs)
    targets = torch.randint(0, min(10, logits.shape[-1]), logits.shape[:1])
    if logits.ndim == 3:  # one that a causal net can know: the token before
        targets = torch.nn.functional.pad(inputs[-1][:, :-1], (1, 0))
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(300):
        logits = net(*inputs)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, -2), targets.flatten())
        if loss < 0.05:
            return
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    pytest.fail(f"the loss is still {loss.item():.3f}")


@pytest.mark.parametrize("family", FAMILIES.names())
def test_bf16_autocast(family):
    net, inputs = small(family)
    with torch.autocast("cpu", torch.bfloat16):
        loss = loss_of(net(*inputs))
    loss.backward()
    assert math.isfinite(loss.item())


@pytest.mark.parametrize("family", [f for f in FAMILIES.names() if FAMILIES.get(f).kind == "image"])
def test_channels_last_changes_nothing(family):
    net, (images,) = small(family)
    net.eval()
    with torch.no_grad():
        before = net(images)
        after = net.to(memory_format=torch.channels_last)(
            images.contiguous(memory_format=torch.channels_last)
        )
    assert torch.allclose(before, after, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("family", FAMILIES.names())
def test_the_exported_program_gives_the_same_logits(family):
    net, inputs = small(family)
    net.eval()
    program = torch.export.export(net, inputs)
    with torch.no_grad():
        assert torch.allclose(program.module()(*inputs), net(*inputs), atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES.names())
def test_compiled_gives_the_same_logits(family):
    """Traced by dynamo without a graph break; the eager backend needs no C++ compiler."""
    net, inputs = small(family)
    net.eval()
    torch._dynamo.reset()  # it counts recompilations of a shared forward over all families
    fast = torch.compile(net, backend="eager", fullgraph=True)
    with torch.no_grad():
        assert torch.allclose(fast(*inputs), net(*inputs), atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES.names())
def test_activation_checkpointing_changes_no_gradient_and_no_buffer(family):
    nets = [small(family)[0] for _ in range(2)]
    _, inputs = small(family)
    blocks = [m for m in nets[1].modules() if isinstance(m, ResidualBlock)]
    if not blocks:
        pytest.skip("no residual block here")
    for block in blocks:
        block.checkpoint_activations = True
    for net in nets:
        torch.manual_seed(1)
        loss_of(net(*inputs)).backward()
    for (key, ours), theirs in zip(nets[0].named_parameters(), nets[1].parameters(), strict=True):
        assert torch.equal(ours.grad, theirs.grad), key
    for (key, ours), theirs in zip(nets[0].named_buffers(), nets[1].buffers(), strict=True):
        assert torch.equal(ours, theirs), key


@pytest.mark.parametrize("family", FAMILIES.names())
def test_checkpointing_is_an_option_of_every_family_with_blocks(family):
    net, _ = small(family)
    blocks = [m for m in net.modules() if isinstance(m, ResidualBlock)]
    if not blocks:
        pytest.skip("no residual block here")
    assert "checkpoint_activations" in known_options(family)
    net, _ = small(family, checkpoint_activations=True)
    assert all(m.checkpoint_activations for m in net.modules() if isinstance(m, ResidualBlock))


@pytest.mark.parametrize("family", [f for f in FAMILIES.names() if FAMILIES.get(f).kind == "image"])
def test_features_are_what_was_announced(family):
    net, (images,) = small(family)
    if not isinstance(net, ConvNet):
        pytest.skip("no convolutional stages")
    maps = net.eval().features(images)
    side = images.shape[-1]
    assert list(maps) == [info.name for info in net.feature_info]
    for info in net.feature_info:
        size = -(-side // info.reduction)
        assert maps[info.name].shape == (2, info.channels, size, size)
    last = net.feature_info[-1].name
    assert torch.allclose(net.head(maps[last]), net(images), atol=1e-6)


def test_checkpointing_and_stochastic_depth_drop_the_same_branches():
    nets = [
        create_model("resnet20", drop_path=0.5, checkpoint_activations=saves)
        for saves in (False, True)
    ]
    nets[1].load_state_dict(nets[0].state_dict())
    images = torch.randn(4, 3, 16, 16)
    for net in nets:
        torch.manual_seed(1)
        net(images).logsumexp(1).sum().backward()
    gradients = [[p.grad for p in net.parameters()] for net in nets]
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_zero_init_makes_every_block_start_as_its_shortcut():
    net = create_model("resnet20", zero_init_branch=True).eval()
    block = net.stages[0][1]
    x = torch.rand(2, 16, 8, 8)
    assert torch.equal(block(x), x)


def test_a_deep_copy_is_independent():
    net = create_model("resnet20")
    twin = copy.deepcopy(net)
    with torch.no_grad():
        twin.head.classifier.bias.add_(1)
    assert not torch.equal(net.head.classifier.bias, twin.head.classifier.bias)
