"""More depth, the same function."""

import pytest
import torch

import reslab
from reslab.errors import ModelError
from reslab.models.catalog import create_model
from reslab.surgery.deepen import deepen


def moved(name, **options):
    """A net whose weights and statistics are not the initial ones."""
    torch.manual_seed(0)
    net = create_model(name, **options)
    for _ in range(2):
        net(torch.randn(8, 3, 16, 16))
    return net.eval()


@pytest.mark.parametrize("name", ["plain20", "resnet20"])
def test_the_deeper_net_has_the_same_logits(name):
    net = moved(name)
    deeper = deepen(net, (9, 9, 9))
    images = torch.randn(16, 3, 16, 16)
    with torch.no_grad():
        assert torch.equal(deeper(images).argmax(1), net(images).argmax(1))
        assert (deeper(images) - net(images)).abs().max() < 1e-4 * net(images).abs().max()
    assert deeper.spec.depth == 56 and net.spec.depth == 20
    assert len(net.stages[0]) == 3


def test_dirac_blocks_of_a_plain_net_are_exact():
    block = deepen(moved("plain20"), (4, 3, 3)).stages[0][3]
    x = torch.rand(2, 16, 8, 8) * 100
    with torch.no_grad():
        assert torch.equal(block(x), x)


def test_the_deeper_net_trains():
    deeper = deepen(moved("plain20"), (4, 4, 4)).train()
    deeper(torch.randn(4, 3, 16, 16)).logsumexp(1).sum().backward()
    assert all(p.grad is not None for p in deeper.parameters())


def test_the_deeper_net_is_saved_and_loaded_by_itself(tmp_path):
    deeper = deepen(moved("plain20", num_classes=4), (9, 9, 9))
    reslab.save_weights(tmp_path / "deeper.safetensors", deeper)
    again = reslab.load_model(tmp_path / "deeper.safetensors")
    images = torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        assert torch.equal(again(images), deeper(images))


def test_what_is_no_deepening_is_refused():
    with pytest.raises(ModelError, match="can only be deepened"):
        deepen(moved("plain20"), (2, 3, 3))
    with pytest.raises(ModelError, match="projection"):
        deepen(moved("resnet20", shortcut="C"), (4, 4, 4))
    bottleneck = create_model("cifar_resnet", depth=29, block="bottleneck", shortcut="none")
    with pytest.raises(ModelError, match="narrows its input"):
        deepen(bottleneck, (4, 3, 3))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("resnet20", {"activation": "tanh"}, "this activation"),
        ("resnet20", {"norm": "none"}, "this norm"),
        ("plain20", {"squeeze": 4}, "this squeeze"),
        ("preresnet20", {}, "only post-activation"),
    ],
)
def test_nets_whose_function_would_change_are_refused(name, options, message):
    with pytest.raises(ModelError, match=message):
        deepen(create_model(name, **options), (4, 4, 4))


def test_the_deeper_net_remembers_every_option():
    deeper = deepen(moved("resnet20", squeeze=4, num_classes=3), (4, 4, 4))
    again = create_model(deeper.origin.name, **deeper.origin.options)
    again.load_state_dict(deeper.state_dict(), strict=True)
    assert again.spec == deeper.spec
