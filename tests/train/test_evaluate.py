"""Scores against values counted by hand; measuring leaves the net as it was."""

import pytest
import torch
from torch import nn

import reslab
from reslab.data import ArraySplit, Data, EvalBatch, load_data
from reslab.errors import DataError
from reslab.train.evaluate import evaluate_batches, view_logits
from reslab.train.trained import Trained


class Lookup(nn.Module):
    """The input is the score."""

    def forward(self, x):
        return x


def batch(scores, targets):
    targets = torch.tensor(targets)
    return EvalBatch((torch.tensor(scores),), targets, torch.arange(len(targets)))


def test_counts_are_those_of_the_hand():
    scores = [[3.0, 1, 0], [0, 2, 1], [5, 0, 1], [0, 0, 4]]
    result = evaluate_batches(
        Lookup(), [batch(scores[:2], [0, 0]), batch(scores[2:], [1, 2])], classes=("a", "b", "c")
    )
    assert result.confusion == ((1, 1, 0), (1, 0, 0), (0, 0, 1))
    assert (result.samples, result.top1_accuracy, result.top1_error) == (4, 50.0, 50.0)
    assert result.per_class_accuracy == (50.0, 0.0, 100.0)
    assert result.top5_accuracy is None
    expected = -torch.tensor(scores).log_softmax(1)[range(4), [0, 0, 1, 2]].mean()
    assert result.loss == pytest.approx(float(expected))


def test_top5_counts_the_five_best():
    scores = torch.eye(8).flip(0).cumsum(0)[:1].expand(2, 8) + torch.arange(8) * 0.1
    result = evaluate_batches(Lookup(), [batch(scores.tolist(), [3, 1])])
    assert (result.top5_accuracy, result.top1_accuracy) == (50.0, 0.0)


def test_a_class_without_samples_has_no_accuracy():
    result = evaluate_batches(Lookup(), [batch([[1.0, 0.0]], [0])])
    assert result.per_class_accuracy == (100.0, None)


def test_views_are_averaged_as_probabilities():
    views = (torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 1.0]]))
    expected = torch.stack([v.softmax(1) for v in views]).mean(0)
    found = view_logits(Lookup(), views, torch.device("cpu")).exp()
    assert torch.allclose(found, expected)


def test_the_net_is_scored_in_evaluation_mode_and_left_as_it_was():
    net = reslab.create_model("resnet8", in_channels=1)
    net.train()
    net.stages[1].eval()
    modes = [m.training for m in net.modules()]
    before = {k: v.clone() for k, v in net.state_dict().items()}
    reslab.evaluate(net, "digits")
    assert [m.training for m in net.modules()] == modes
    assert all(torch.equal(before[k], v) for k, v in net.state_dict().items())
    assert all(p.grad is None for p in net.parameters())


def test_modes_are_restored_after_an_error():
    net = reslab.create_model("resnet8").train()
    with pytest.raises(RuntimeError):
        evaluate_batches(net, [batch([[1.0]], [0])])
    assert all(m.training for m in net.modules())


def test_a_label_without_a_score_is_named():
    with pytest.raises(DataError, match=r"got 'label 2', expected labels 0 to 1"):
        evaluate_batches(Lookup(), [batch([[1.0, 0.0]], [2])])


def test_nothing_to_evaluate_on_is_said():
    with pytest.raises(DataError, match="nothing to evaluate"):
        evaluate_batches(Lookup(), [])


def two_classes(names, labels):
    split = ArraySplit(torch.zeros(len(labels), 1, 8, 8, dtype=torch.uint8), torch.tensor(labels))
    return Data("toy", names, split, split, {})


def test_classes_of_weights_and_data_are_matched_by_name():
    net = reslab.create_model("resnet8", in_channels=1, num_classes=2).eval()
    with torch.no_grad():
        net.head.classifier.weight.zero_()
        net.head.classifier.bias.copy_(torch.tensor([0.0, 1.0]))  # always calls "dog"
    trained = Trained(model=net, classes=("cat", "dog"))
    data = two_classes(("dog", "cat"), [0, 0, 0, 1])
    assert reslab.evaluate(trained, data).top1_accuracy == 75.0
    with pytest.raises(DataError, match="'cow'"):
        reslab.evaluate(trained, two_classes(("cow", "cat"), [0, 1]))


def test_a_subset_of_the_classes_can_be_scored():
    net = reslab.create_model("resnet8", in_channels=1, num_classes=3).eval()
    trained = Trained(model=net, classes=("a", "b", "c"))
    result = reslab.evaluate(trained, two_classes(("a", "c"), [0, 1]))
    assert result.per_class_accuracy[1] is None and len(result.confusion) == 3


@pytest.mark.parametrize("view", ["flip", "ten-crop", "multi-scale"])
def test_every_view_scores_every_sample_once(view):
    data = load_data("digits")
    net = reslab.create_model("resnet8", in_channels=1)
    result = reslab.evaluate(net, data, view=view)
    assert result.samples == 360 and result.view == view
