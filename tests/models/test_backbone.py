"""A detector on our maps: torchvision's Faster R-CNN with a feature pyramid learns through resnet50."""

from collections import OrderedDict

import torch
from torch import nn
from torchvision.models.detection import FasterRCNN
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.ops import FeaturePyramidNetwork, MultiScaleRoIAlign

from reslab.models.catalog import create_model


class Pyramid(nn.Module):
    """What torchvision asks of a backbone: named maps of equal width, and `out_channels`."""

    def __init__(self, net, out_channels):
        super().__init__()
        self.net = net
        self.out_channels = out_channels
        channels = [info.channels for info in net.feature_info]
        self.pyramid = FeaturePyramidNetwork(channels, out_channels)

    def forward(self, images):
        return self.pyramid(OrderedDict(self.net.features(images)))


def test_a_detector_trains_on_resnet50s_features():
    torch.manual_seed(0)
    net = create_model("resnet50", num_classes=2)
    assert [info.reduction for info in net.feature_info] == [4, 8, 16, 32]
    detector = FasterRCNN(
        Pyramid(net, 16),
        num_classes=3,
        min_size=64,
        max_size=64,
        rpn_anchor_generator=AnchorGenerator(
            sizes=((8,), (16,), (32,), (64,)), aspect_ratios=((0.5, 1.0, 2.0),) * 4
        ),
        rpn_post_nms_top_n_train=20,
        box_roi_pool=MultiScaleRoIAlign(
            [info.name for info in net.feature_info], output_size=7, sampling_ratio=2
        ),
        box_batch_size_per_image=16,
    )
    images = [torch.rand(3, 64, 64) for _ in range(2)]
    targets = [
        {"boxes": torch.tensor([[8.0, 8.0, 40.0, 48.0]]), "labels": torch.tensor([label])}
        for label in (1, 2)
    ]
    optimizer = torch.optim.SGD(detector.parameters(), lr=0.01)
    before = net.stem.conv.weight.detach().clone()
    losses = detector.train()(images, targets)
    loss = sum(losses.values())
    loss.backward()
    optimizer.step()
    assert set(losses) == {
        "loss_classifier",
        "loss_box_reg",
        "loss_objectness",
        "loss_rpn_box_reg",
    }
    assert torch.isfinite(loss) and loss > 0
    reached = [n for n, p in net.named_parameters() if p.grad is not None and p.grad.any()]
    assert "stem.conv.weight" in reached
    assert all(f"stages.{i}.0.branch.conv1.weight" in reached for i in range(4))
    assert not torch.equal(net.stem.conv.weight, before)
