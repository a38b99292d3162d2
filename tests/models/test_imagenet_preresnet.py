"""Pre-activation ImageNet nets: timm's logits, and parameters by arithmetic."""

import pytest
import timm
import torch
from torch import nn

import reslab
from reslab.errors import ModelError
from reslab.models.catalog import create_model
from reslab.models.cost import count_parameters
from reslab.nn import Projection


def randomise_norms(net):
    """Norms unlike their start, negative scales too, so that a misplaced one shows."""
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.weight, mean=0.7, std=0.5)
            nn.init.normal_(module.bias, std=0.1)
            nn.init.normal_(module.running_mean, std=0.1)


def test_logits_equal_timms_resnetv2_50_and_weights_go_back():
    torch.manual_seed(0)
    theirs = timm.create_model("resnetv2_50").eval()
    randomise_norms(theirs)
    ours = create_model("imagenet_preresnet50").eval()
    report = reslab.load_weights(ours, theirs.state_dict())
    assert report.layout == "timm" and report.mean == (0.5, 0.5, 0.5)
    assert not (report.missing or report.unexpected or report.skipped)
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        expected = theirs(images)
        # Their classifier is a 1x1 convolution, which adds in another order.
        assert torch.allclose(ours(images), expected, atol=1e-4 * expected.abs().max().item())
    back = reslab.state_dict_for(ours, "timm")
    theirs.load_state_dict(back, strict=True)
    assert all(torch.equal(back[k], v) for k, v in theirs.state_dict().items())


def bottleneck_count(depths):
    total, read = 3 * 49 * 64, 64
    for width, depth in zip((64, 128, 256, 512), depths, strict=True):
        for unit in range(depth):
            total += read * width + 9 * width**2 + 4 * width**2 + 2 * (read + 2 * width)
            total += read * 4 * width if unit == 0 else 0
            read = 4 * width
    return total + 2 * 2048 + 2048 * 1000 + 1000


@pytest.mark.parametrize(
    ("name", "depths"),
    [
        ("imagenet_preresnet50", (3, 4, 6, 3)),
        ("imagenet_preresnet101", (3, 4, 23, 3)),
        ("imagenet_preresnet152", (3, 8, 36, 3)),
        ("preresnet200", (3, 24, 36, 3)),
    ],
)
def test_parameters_are_those_of_the_arithmetic(name, depths):
    with torch.device("meta"):
        net = create_model(name)
    assert count_parameters(net) == bottleneck_count(depths)
    assert net.spec.depths == depths and net.depth == 3 * sum(depths) + 2


def test_basic_nets_project_where_shapes_change_and_promise_no_timm_names():
    with torch.device("meta"):
        net = create_model("imagenet_preresnet", depth=34)
    kinds = [isinstance(stage[0].shortcut, Projection) for stage in net.stages]
    assert kinds == [False, True, True, True]
    assert net.layouts == ()  # timm's first unit does not share its activation


def test_bottlenecks_stride_where_the_option_says():
    with torch.device("meta"):
        nets = {s: create_model("imagenet_preresnet50", stride_on=s) for s in ("3x3", "1x1")}
    strides = {
        where: (net.stages[1][0].branch.conv1.stride[0], net.stages[1][0].branch.conv2.stride[0])
        for where, net in nets.items()
    }
    assert strides == {"3x3": (1, 2), "1x1": (2, 1)}
    assert nets["3x3"].layouts and not nets["1x1"].layouts


def test_preresnet200_is_the_imagenet_net_and_other_depths_are_refused():
    with torch.device("meta"):
        assert create_model("preresnet200").spec.stem == "imagenet"
    with pytest.raises(ModelError, match="Nearest: 50 or 34"):
        create_model("imagenet_preresnet", depth=51)
