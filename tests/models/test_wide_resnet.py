"""Wide ResNets: parameters by arithmetic, where the dropout is, what the depth counts."""

import pytest
import torch
from torch import nn

from reslab.errors import ModelError
from reslab.models.catalog import create_model
from reslab.models.cost import count_parameters
from reslab.nn import Identity, Projection


def count_by_hand(depth, k, classes=10):
    total, read = 3 * 9 * 16, 16
    for width in (16 * k, 32 * k, 64 * k):
        for unit in range((depth - 4) // 6):
            total += 9 * read * width + 9 * width * width + 2 * (read + width)
            total += read * width if unit == 0 else 0
            read = width
    return total + 2 * read + read * classes + classes


@pytest.mark.parametrize(("depth", "k"), [(28, 10), (40, 4), (16, 8)])
def test_parameters_are_those_of_the_arithmetic(depth, k):
    with torch.device("meta"):
        net = create_model(f"wrn{depth}_{k}")
        hundred = create_model(f"wrn{depth}_{k}", num_classes=100)
    assert count_parameters(net) == count_by_hand(depth, k)
    assert count_parameters(hundred) == count_by_hand(depth, k, classes=100)


def test_wrn_28_10_has_36_and_a_half_million_parameters():
    assert count_by_hand(28, 10) == 36_479_194


def test_the_name_counts_all_convolutions():
    with torch.device("meta"):
        net = create_model("wrn28_10")
    assert sum(isinstance(module, nn.Conv2d) for module in net.modules()) == 28
    assert net.depth == 26  # without the three projections, with the classifier


def test_projections_stand_where_shapes_change_only():
    net = create_model("wide_resnet", depth=16, width_factor=2)
    kinds = [[type(block.shortcut) for block in stage] for stage in net.stages]
    assert kinds == [[Projection, Identity]] * 3
    assert all(isinstance(stage[0].before.norm, nn.BatchNorm2d) for stage in net.stages)


def test_dropout_stands_between_the_convolutions_and_changes_nothing_in_evaluation():
    torch.manual_seed(0)
    net = create_model("wide_resnet", depth=10, width_factor=2).eval()
    dropped = create_model("wide_resnet", depth=10, width_factor=2, dropout=0.3)
    dropped.load_state_dict(net.state_dict(), strict=True)
    images = torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        assert not torch.equal(dropped(images), dropped(images))
        dropped.load_state_dict(net.state_dict(), strict=True)
        assert torch.equal(dropped.eval()(images), net(images))
    names = [name for name, _ in dropped.stages[0][0].branch.named_children()]
    assert names == ["conv1", "norm2", "act2", "dropout2", "conv2"]


def test_a_wide_net_is_a_preactivation_net_of_other_widths():
    torch.manual_seed(0)
    wide = create_model("wide_resnet", depth=10, width_factor=1).eval()
    narrow = create_model("preresnet", depth=8, shape_change="projection").eval()
    narrow.load_state_dict(wide.state_dict(), strict=True)
    images = torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        assert torch.equal(wide(images), narrow(images))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 26, "width_factor": 2}, "Nearest: 22 or 28"),
        ({"depth": 4, "width_factor": 2}, "Nearest: 10"),
        ({"depth": 28, "width_factor": 0}, "width_factor is wrong"),
        ({"depth": 28}, "needs a width_factor"),
        ({"depth": 28, "width_factor": 2, "dropout": 1.0}, "dropout is wrong"),
    ],
)
def test_what_cannot_be_built_is_refused(options, message):
    with pytest.raises(ModelError, match=message):
        create_model("wide_resnet", **options)
