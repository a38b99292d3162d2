"""One checker through which every named net goes."""

import copy
import pickle

import pytest
import torch

from reslab.models.catalog import MODELS, create_model

NAMES = [n for n in MODELS.names() if MODELS.get(n).parameters < 30e6 and n != "resnet1202"]
SMALL = ["resnet20", "plain20", "resnet18", "resnet50"]


def image_size(name):
    return 16 if MODELS.get(name).family == "cifar_resnet" else 64


@pytest.mark.parametrize("name", NAMES)
def test_shape_backward_state_round_trip_pickle_and_repr(name):
    torch.manual_seed(0)
    net = create_model(name, num_classes=7, in_channels=2)
    images = torch.randn(2, 2, image_size(name), image_size(name))
    logits = net(images)
    assert logits.shape == (2, 7)
    logits.square().sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in net.parameters())
    other = create_model(name, num_classes=7, in_channels=2)
    other.load_state_dict(net.state_dict(), strict=True)
    with torch.no_grad():
        assert torch.equal(other.eval()(images), net.eval()(images))
    assert pickle.loads(pickle.dumps(net)).spec == net.spec
    assert f"shortcut={net.spec.shortcut}" in repr(net)


@pytest.mark.parametrize("name", SMALL)
def test_bf16_autocast_and_channels_last(name):
    net = create_model(name).to(memory_format=torch.channels_last)
    images = torch.randn(2, 3, image_size(name), image_size(name))
    with torch.autocast("cpu", torch.bfloat16):
        loss = net(images.contiguous(memory_format=torch.channels_last)).float().sum()
    loss.backward()
    assert torch.isfinite(loss)


@pytest.mark.parametrize("name", SMALL)
def test_the_exported_program_gives_the_same_logits(name):
    net = create_model(name).eval()
    images = torch.randn(2, 3, image_size(name), image_size(name))
    program = torch.export.export(net, (images,))
    with torch.no_grad():
        assert torch.allclose(program.module()(images), net(images), atol=1e-5)


@pytest.mark.parametrize("name", ["resnet20", "plain20", "resnet50"])
def test_activation_checkpointing_changes_no_gradient_and_no_buffer(name):
    torch.manual_seed(0)
    plain = create_model(name, num_classes=3)
    saving = create_model(name, num_classes=3, checkpoint_activations=True)
    saving.load_state_dict(plain.state_dict())
    images = torch.randn(4, 3, image_size(name), image_size(name))
    for net in (plain, saving):
        net(images).logsumexp(1).sum().backward()
    for (key, ours), theirs in zip(plain.named_parameters(), saving.parameters(), strict=True):
        assert torch.equal(ours.grad, theirs.grad), key
    for (key, ours), theirs in zip(plain.named_buffers(), saving.buffers(), strict=True):
        assert torch.equal(ours, theirs), key


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
