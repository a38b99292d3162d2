"""Weights in and out: whole or not at all, by anyone's names, without pickle."""

import os
import pickle

import pytest
import torch
import torchvision
from hypothesis import given
from hypothesis import strategies as st

import reslab
from reslab.errors import WeightsError
from reslab.models.convert import strip_prefixes
from reslab.models.weights import read_metadata


@pytest.fixture
def net():
    torch.manual_seed(0)
    return reslab.create_model("resnet20", num_classes=4)


def same(a, b):
    a, b = a.state_dict(), b.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def test_a_saved_net_comes_back_by_itself_with_what_travels(net, tmp_path):
    reslab.save_weights(tmp_path / "net.safetensors", net, classes=["a", "b", "c", "d"])
    again = reslab.load_model(tmp_path / "net.safetensors")
    assert same(again, net) and not again.training
    about = read_metadata(tmp_path / "net.safetensors")
    assert about["model"] == "resnet20" and about["options"] == {"num_classes": 4}
    assert about["classes"] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("layout", ["torchvision", "pytorch_resnet_cifar10", "reslab"])
def test_names_go_both_ways(net, layout):
    other = reslab.create_model("resnet20", num_classes=4)
    report = reslab.load_weights(other, reslab.state_dict_for(net, layout))
    assert report.layout == layout and same(other, net)


@given(st.lists(st.sampled_from(["module.", "_orig_mod."]), max_size=4))
def test_wrappers_nested_either_way_are_stripped_and_reported(prefixes):
    wrapped = "".join(prefixes) + "fc.weight"
    state, found = strip_prefixes({wrapped: torch.zeros(1)})
    assert list(state) == ["fc.weight"]
    assert list(found) == list(dict.fromkeys(prefixes))


def test_a_checkpoint_that_wraps_its_state_dict_is_unwrapped(net, tmp_path):
    state = {f"module._orig_mod.{k}": v for k, v in net.state_dict().items()}
    torch.save({"epoch": 3, "state_dict": state}, tmp_path / "theirs.pt")
    other = reslab.create_model("resnet20", num_classes=4)
    report = reslab.load_weights(other, tmp_path / "theirs.pt")
    assert report.wrapper == "state_dict" and report.prefixes == ("module.", "_orig_mod.")
    assert same(other, net)


def test_weights_that_do_not_fit_change_nothing(net):
    before = {k: v.clone() for k, v in net.state_dict().items()}
    with pytest.raises(WeightsError, match="missing"):
        reslab.load_weights(net, {"stem.conv.weight": torch.zeros(16, 3, 3, 3)})
    with pytest.raises(WeightsError, match="score 10 classes and resnet20 scores 4"):
        reslab.load_weights(net, reslab.create_model("resnet20").state_dict())
    assert all(torch.equal(before[k], v) for k, v in net.state_dict().items())


def test_a_new_head_keeps_the_rest_and_says_what_it_skipped(net):
    trained = torchvision.models.resnet18(num_classes=10)
    ours = reslab.create_model("resnet18", num_classes=4)
    head = ours.head.classifier.weight.clone()
    report = reslab.load_weights(ours, trained.state_dict(), partial=True)
    assert [s.split()[0] for s in report.skipped] == [
        "head.classifier.weight",
        "head.classifier.bias",
    ]
    assert "skipped: head.classifier.weight (10, 512) for (4, 512)" in str(report)
    assert torch.equal(ours.head.classifier.weight, head)
    assert torch.equal(ours.stem.conv.weight, trained.conv1.weight)


class Evil:
    def __reduce__(self):
        return (os.system, ("false",))


def test_a_pickle_that_would_run_code_is_refused(net, tmp_path):
    with (tmp_path / "evil.pt").open("wb") as file:
        pickle.dump({"state_dict": Evil()}, file)
    with pytest.raises(WeightsError, match="trust_pickle=True"):
        reslab.load_weights(net, tmp_path / "evil.pt")


@pytest.mark.parametrize("cut", [0, 5, 100, 20_000])
def test_a_cut_file_is_one_clear_sentence(net, tmp_path, cut):
    torch.save(net.state_dict(), tmp_path / "whole.pt")
    (tmp_path / "cut.pt").write_bytes((tmp_path / "whole.pt").read_bytes()[:cut])
    with pytest.raises(WeightsError, match=r"cut\.pt"):
        reslab.load_weights(net, tmp_path / "cut.pt")
    reslab.save_weights(tmp_path / "whole.safetensors", net)
    content = (tmp_path / "whole.safetensors").read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(content[:cut])
    with pytest.raises(WeightsError, match=r"cut\.safetensors"):
        reslab.load_weights(net, tmp_path / "cut.safetensors")


def test_weights_without_a_name_ask_for_one(net, tmp_path):
    torch.save(net.state_dict(), tmp_path / "theirs.pt")
    with pytest.raises(WeightsError, match="--model NAME"):
        reslab.load_model(tmp_path / "theirs.pt")


def test_a_missing_file_is_named(net):
    with pytest.raises(WeightsError, match=r"no weights file at nowhere\.pt"):
        reslab.load_weights(net, "nowhere.pt")


@pytest.mark.parametrize("channels", [1, 2, 4, 13])
def test_a_stem_for_other_channels_keeps_the_scale_of_its_activations(channels):
    torch.manual_seed(0)
    theirs = torchvision.models.resnet18(num_classes=4)
    ours = reslab.create_model("resnet18", num_classes=4, in_channels=channels)
    report = reslab.load_weights(ours, theirs.state_dict(), partial=True)
    assert report.adapted == (f"stem.conv.weight from 3 to {channels} input channels",)
    assert not report.skipped
    grey = torch.rand(1, 1, 32, 32)
    with torch.no_grad():
        expected = theirs.conv1(grey.expand(-1, 3, -1, -1))
        found = ours.stem.conv(grey.expand(-1, channels, -1, -1))
    assert found.std().item() == pytest.approx(expected.std().item(), rel=0.35)
    if channels == 1:
        assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("nested", ["compile", "parallel", "both", "the other way"])
def test_wrapped_nets_are_saved_and_loaded_unwrapped(net, tmp_path, nested):
    wrapped = {
        "compile": lambda m: torch.compile(m),
        "parallel": torch.nn.DataParallel,
        "both": lambda m: torch.compile(torch.nn.DataParallel(m)),
        "the other way": lambda m: torch.nn.DataParallel(torch.compile(m)),
    }[nested](net)
    reslab.save_weights(tmp_path / "w.safetensors", wrapped)
    again = reslab.load_model(tmp_path / "w.safetensors")
    assert same(again, net)
    reslab.load_weights(wrapped, tmp_path / "w.safetensors")


def test_other_peoples_classes_keep_their_own_names():
    theirs = torchvision.models.resnet18(num_classes=3)
    again = torchvision.models.resnet18(num_classes=3)
    report = reslab.load_weights(again, theirs.state_dict())
    assert report.layout == "reslab" and same(again, theirs)
    wrapped = {f"module.{k}": v for k, v in theirs.state_dict().items()}
    assert reslab.load_weights(again, wrapped).prefixes == ("module.",)


def test_a_tensor_beside_the_state_dict_is_not_taken_for_it(net):
    content = {"epoch": 3, "state_dict": net.state_dict(), "best_acc1": torch.tensor(1.0)}
    other = reslab.create_model("resnet20", num_classes=4)
    report = reslab.load_weights(other, content)
    assert report.wrapper == "state_dict" and "from state_dict" in str(report)
    assert same(other, net)


def test_tied_weights_are_saved(tmp_path):
    tied = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Linear(3, 3))
    tied[2].weight = tied[0].weight
    reslab.save_weights(tmp_path / "tied.safetensors", tied)
    reslab.load_weights(tied, tmp_path / "tied.safetensors")
