"""The block contract: y = after(merge(shortcut(x), branch(x))), seen from outside."""

import pytest
import torch
from torch import nn

from reslab.errors import ModelError
from reslab.models.catalog import create_model
from reslab.nn import Identity, PadShortcut, ResidualBlock, Zero, basic_branch, build_shortcut


def affine(value):
    layer = nn.Linear(1, 1)
    nn.init.constant_(layer.weight, value)
    nn.init.zeros_(layer.bias)
    return layer


def test_a_block_is_the_formula():
    branch = nn.Sequential(affine(2.0), nn.ReLU(), affine(-5.0))
    block = ResidualBlock(branch, Identity(), after=nn.ReLU())
    assert block(torch.tensor([[1.0], [-3.0]])).tolist() == [[0.0], [0.0]]
    block.after = nn.Identity()
    assert block(torch.tensor([[1.0], [-3.0]])).tolist() == [[-9.0], [-3.0]]


@pytest.mark.parametrize("name", ["resnet20", "plain20", "resnet50"])
def test_shortcut_plus_branch_is_what_the_block_activates(name):
    net = create_model(name).eval()
    seen = {}
    blocks = [m for m in net.modules() if isinstance(m, ResidualBlock)]
    for block in blocks:
        for part in ("branch", "shortcut", "after"):
            getattr(block, part).register_forward_hook(
                lambda m, x, y, key=(block, part): seen.__setitem__(key, (x[0], y))
            )
    with torch.no_grad():
        net(torch.randn(2, 3, 64, 64))
    assert len(blocks) == sum(net.spec.depths)
    for block in blocks:
        total = seen[block, "shortcut"][1] + seen[block, "branch"][1]
        assert torch.equal(total, seen[block, "after"][0])


def test_a_plain_block_is_its_branch_alone():
    torch.manual_seed(0)
    branch = basic_branch(4, 4).eval()
    block = ResidualBlock(branch, Zero(), after=nn.ReLU()).eval()
    x = torch.randn(2, 4, 5, 5)
    assert torch.equal(block(x), branch(x).relu())
    assert Zero()(x).item() == 0


def test_option_a_takes_even_pixels_and_pads_with_zero_channels():
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    expected = torch.zeros(1, 4, 2, 2)
    expected[0, 1] = torch.tensor([[0.0, 2.0], [8.0, 10.0]])
    assert torch.equal(PadShortcut(1, 4, stride=2)(x), expected)


def test_option_a_keeps_the_odd_pixel_of_odd_maps():
    assert PadShortcut(1, 2, stride=2)(torch.zeros(1, 1, 5, 7)).shape == (1, 2, 3, 4)


def test_option_a_cannot_drop_channels():
    with pytest.raises(ModelError, match="cannot drop channels"):
        PadShortcut(4, 2)


@pytest.mark.parametrize(
    ("policy", "same", "change"),
    [
        ("none", "Zero", "Zero"),
        ("A", "Identity", "PadShortcut"),
        ("B", "Identity", "Projection"),
        ("C", "Projection", "Projection"),
    ],
)
def test_policies_pick_the_papers_shortcuts(policy, same, change):
    assert type(build_shortcut(policy, 8, 8, stride=1)).__name__ == same
    assert type(build_shortcut(policy, 8, 16, stride=2)).__name__ == change


def test_identity_refuses_a_change_of_shape():
    with pytest.raises(ModelError, match="8 -> 16 channels, stride 2"):
        build_shortcut("identity", 8, 16, stride=2)


@pytest.mark.parametrize(
    "branch",
    [
        nn.Conv2d(4, 4, 3, padding=1),
        nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)),
        nn.Sequential(nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)),
    ],
)
def test_a_linear_branch_is_refused_with_the_reason_unless_asked_for(branch):
    with pytest.raises(ModelError, match=r"\(W \+ I\)x"):
        ResidualBlock(branch, Identity())
    assert ResidualBlock(branch, Identity(), allow_linear_branch=True)
    assert ResidualBlock(branch, Zero())  # an ordinary plain layer


def test_stochastic_depth_follows_the_linear_rule():
    net = create_model("resnet20", drop_path=0.9)
    rates = [block.drop_path.p for stage in net.stages for block in stage]
    assert rates == pytest.approx([0.1 * k for k in range(1, 10)])


def test_stochastic_depth_is_off_in_evaluation():
    net = create_model("resnet20", drop_path=0.9).eval()
    same = create_model("resnet20").eval()
    same.load_state_dict(net.state_dict())
    x = torch.randn(1, 3, 8, 8)
    with torch.no_grad():
        assert torch.equal(net(x), same(x))


def test_stride_is_on_the_3x3_or_where_asked():
    for where, strides in (("3x3", [1, 2]), ("1x1", [2, 1])):
        branch = create_model("resnet50", stride_on=where).stages[1][0].branch
        assert [branch.conv1.stride[0], branch.conv2.stride[0]] == strides


def test_nothing_in_a_block_works_in_place():
    for module in create_model("resnet50").modules():
        assert not getattr(module, "inplace", False)


class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def test_a_branch_of_an_unknown_class_is_not_taken_for_linear():
    assert ResidualBlock(Functional(), Identity())
