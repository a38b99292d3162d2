"""DenseNets: torchvision's for ImageNet, the paper's table 2 for CIFAR."""

import pytest
import torch
import torchvision

import reslab
from reslab.errors import ModelError
from reslab.models.catalog import MODELS, create_model
from reslab.models.cost import count_parameters
from reslab.nn import Concat, Identity, ResidualBlock

IMAGENET = {121: 7_978_856, 161: 28_681_000, 169: 14_149_480, 201: 20_013_928}


def on_meta(name, **options):
    with torch.device("meta"):
        return create_model(name, **options)


def cifar_parameters(layers, growth, *, bc, classes=10):
    """The count by the paper's formulas, section 3, without building anything."""
    channels = 2 * growth if bc else 16
    total = 3 * 9 * channels
    for stage in range(3):
        for _ in range(layers):
            inner = 4 * growth
            pair = 2 * channels + channels * inner + 2 * inner + 9 * inner * growth
            total += pair if bc else 2 * channels + 9 * channels * growth
            channels += growth
        if stage < 2:
            kept = channels // 2 if bc else channels
            total += 2 * channels + channels * kept
            channels = kept
    return total + 2 * channels + channels * classes + classes


@pytest.mark.parametrize(
    ("name", "layers", "growth", "bc", "printed"),
    [
        ("densenet40_12", 12, 12, False, 1.0),
        ("densenet100_12", 32, 12, False, 7.0),
        ("densenet100_24", 32, 24, False, 27.2),
        ("densenet_bc100_12", 16, 12, True, 0.8),
        ("densenet_bc250_24", 41, 24, True, 15.3),
        ("densenet_bc190_40", 31, 40, True, 25.6),
    ],
)
def test_cifar_parameters_are_the_papers(name, layers, growth, bc, printed):
    counted = count_parameters(on_meta(name))
    assert counted == MODELS.get(name).parameters == cifar_parameters(layers, growth, bc=bc)
    assert round(counted / 1e6, 1) == printed


def test_densenet_bc100_12_has_769162_parameters():
    assert count_parameters(create_model("densenet_bc100_12")) == 769_162


@pytest.mark.parametrize(("depth", "parameters"), IMAGENET.items())
def test_imagenet_nets_have_torchvisions_tensors(depth, parameters):
    with torch.device("meta"):
        theirs = getattr(torchvision.models, f"densenet{depth}")().state_dict()
    net = on_meta(f"densenet{depth}")
    ours = reslab.state_dict_for(net, "torchvision")
    assert {k: v.shape for k, v in ours.items()} == {k: v.shape for k, v in theirs.items()}
    assert count_parameters(net) == parameters


def test_logits_equal_torchvisions_and_weights_go_back():
    torch.manual_seed(0)
    theirs = torchvision.models.densenet121().eval()
    ours = create_model("densenet121").eval()
    report = reslab.load_weights(ours, theirs.state_dict())
    assert report.layout == "torchvision"
    assert not (report.missing or report.unexpected or report.skipped)
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        assert torch.equal(ours(images), theirs(images))
    theirs.load_state_dict(reslab.state_dict_for(ours, "torchvision"), strict=True)


def test_every_layer_keeps_what_it_read_and_adds_growth_channels():
    net = create_model("densenet_bc100_12").eval()
    block = net.stages[1][2]
    x = torch.randn(2, block.branch.norm1.num_features, 8, 8)
    y = block(x)
    assert torch.equal(y[:, : x.shape[1]], x)
    assert torch.equal(y[:, x.shape[1] :], block.branch(x)) and y.shape[1] - x.shape[1] == 12


def test_every_dense_layer_is_a_block_that_concatenates():
    blocks = [m for m in on_meta("densenet121").modules() if isinstance(m, ResidualBlock)]
    assert len(blocks) == 58
    assert all(type(b.merge) is Concat and type(b.shortcut) is Identity for b in blocks)


def test_features_are_what_dense_blocks_give():
    channels = [info.channels for info in on_meta("densenet121").feature_info]
    assert channels == [256, 512, 1024, 1024]


def test_maps_keep_their_size_at_first_in_evaluation_mode():
    torch.manual_seed(0)
    net = create_model("densenet_bc100_12").eval()
    with torch.no_grad():
        maps = list(net.features(torch.randn(4, 3, 16, 16)).values())
    assert all(0.3 < m.std() < 5 for m in maps)


def test_dropout_follows_every_convolution_but_the_first():
    net = on_meta("densenet40_12", dropout=0.2)
    drops = [m for m in net.modules() if isinstance(m, torch.nn.Dropout)]
    assert len(drops) == 40 - 2 and {m.p for m in drops} == {0.2}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("densenet120", {}, "Nearest: 121 or 161"),
        ("densenet121", {"depths": (1, 1, 1, 1)}, "make 13 layers: expected 121"),
        ("cifar_densenet", {"depth": 41}, "Nearest: 40 or 43"),
        ("cifar_densenet", {"depth": 40, "bc": True, "growth": 0}, "growth is wrong"),
        ("cifar_densenet", {"depth": 99, "bc": True}, "Nearest: 94 or 100"),
        ("densenet40_12", {"compression": 0}, "compression is wrong"),
        ("densenet40_12", {"bc": 1}, "bc is wrong"),
    ],
)
def test_what_cannot_be_built_is_refused_with_the_nearest_legal_value(name, options, message):
    with pytest.raises(ModelError, match=message):
        create_model(name, **options)
