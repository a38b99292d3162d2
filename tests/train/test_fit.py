"""Training by a recipe: any net, any data; every option does what it says."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import reslab
from reslab import files
from reslab.data import Batch, load_data
from reslab.errors import ModelError, NonFiniteLossError, RecipeError, UsageError
from reslab.recipe import Recipe, load_recipe
from reslab.train.fit import build_net
from reslab.train.optim import build_ema, build_optimizer
from reslab.train.precision import choose_device, choose_precision
from reslab.train.state import TrainState
from reslab.train.step import Stepper


def blobs(count, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 3
    centres = torch.eye(3)[labels] * 4
    return TensorDataset(centres + torch.randn(count, 3, generator=generator), labels)


class TwoLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, x):
        return self.layers(x)


def test_any_module_learns_any_dataset(tmp_path):
    torch.manual_seed(0)
    pair = (blobs(301, 0), blobs(99, 1))
    run = reslab.fit(
        TwoLayers(),
        pair,
        recipe=Recipe(epochs=8, lr=0.1, batch_size=20, schedule="cosine"),
        out=tmp_path / "run",
    )
    assert run.result.top1_error < 5 and run.result.samples == 99
    assert len(run.curve) == 8
    assert reslab.evaluate(run.model, pair).top1_error == run.result.top1_error


def test_the_run_folder_tells_everything(tmp_path):
    data = load_data("digits")
    recipe = load_recipe("quick").updated({"model": "resnet8", "iterations": 5})
    reslab.fit(build_net(recipe, data), data, recipe=recipe, out=tmp_path / "run")
    about = files.read_json(tmp_path / "run" / "run.json")
    assert about["recipe"]["seed"] == 0 and about["status"] == "finished"
    assert about["data_sums"] == dict(data.sums) and len(about["data_sums"]) == 4
    assert about["environment"]["torch"] == torch.__version__
    assert about["environment"]["threads"] == torch.get_num_threads()
    assert about["result"]["samples"] == 360
    assert load_recipe(tmp_path / "run" / "recipe.yaml").iterations == 5
    assert list((tmp_path / "run" / "tensorboard").glob("events.out.tfevents.*"))


def test_the_same_seed_gives_the_same_run(tmp_path):
    data = load_data("digits")
    recipe = load_recipe("quick").updated({"model": "plain8", "iterations": 6, "seed": 5})
    runs = [
        reslab.fit(build_net(recipe, data), data, recipe=recipe, out=tmp_path / str(n))
        for n in range(2)
    ]
    states = [run.model.state_dict() for run in runs]
    assert all(torch.equal(states[0][k], states[1][k]) for k in states[0])


class Exploding(nn.Module):
    """Becomes infinite in a named place at the third batch."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.bad = nn.Identity()
        self.calls = 0
        self.bad.register_forward_hook(self._spoil)

    def _spoil(self, module, inputs, output):
        self.calls += self.training
        return output * math.inf if self.calls >= 3 else output

    def forward(self, x):
        return self.bad(self.inner(x))


def test_a_loss_that_is_not_finite_stops_at_once_and_names_step_block_and_batch(tmp_path):
    with pytest.raises(NonFiniteLossError, match=r"step 3 .*batch 2.*samples.*output of bad"):
        reslab.fit(
            Exploding(),
            (blobs(60, 0), blobs(30, 1)),
            recipe=Recipe(epochs=2, batch_size=10),
            out=tmp_path / "run",
        )
    about = files.read_json(tmp_path / "run" / "run.json")
    assert about["status"] == "failed" and "step 3" in about["error"]


def stepper(net, **recipe):
    recipe = Recipe(channels_last=False, precision="fp32", **recipe)
    return Stepper(net, build_optimizer(net, recipe), recipe, torch.device("cpu"))


def test_a_step_is_sgd_with_momentum_and_decay_by_hand():
    net = nn.Linear(2, 2, bias=False)
    w = net.weight.detach().clone()
    x, y = torch.tensor([[1.0, 2.0], [0.5, -1.0]]), torch.tensor([0, 1])
    step = stepper(net, batch_size=2, momentum=0.9, weight_decay=0.1)
    velocity = torch.zeros_like(w)
    for lr in (0.5, 0.25):
        gradient = ((x @ w.T).softmax(1) - torch.eye(2)[y]).T @ x / 2 + 0.1 * w
        velocity = 0.9 * velocity + gradient
        w = w - lr * velocity
        step(Batch(x, y, torch.arange(2)), lr)
    assert torch.allclose(net.weight, w, atol=1e-6)


def test_accumulated_parts_give_the_gradient_of_the_whole_batch():
    x, y = torch.randn(10, 3), torch.arange(10) % 3
    nets = [TwoLayers() for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    losses = [
        stepper(net, batch_size=10, accumulate=parts)(Batch(x, y, torch.arange(10)), 0.1)
        for net, parts in zip(nets, (1, 4), strict=True)
    ]
    assert losses[0] == pytest.approx(losses[1])
    for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def test_clipping_bounds_the_step():
    net = nn.Linear(2, 2, bias=False)
    before = net.weight.detach().clone()
    step = stepper(net, batch_size=2, momentum=0.0, weight_decay=0.0, clip_norm=1e-3)
    step(Batch(torch.randn(2, 2) * 100, torch.tensor([0, 1]), torch.arange(2)), 1.0)
    assert (net.weight - before).norm().item() == pytest.approx(1e-3, rel=1e-3)


def test_norms_and_biases_do_not_decay_when_asked():
    net = reslab.create_model("resnet8")
    groups = build_optimizer(net, Recipe(decay_norms=False, weight_decay=0.3)).param_groups
    assert [g["weight_decay"] for g in groups] == [0.3, 0.0]
    assert {p.ndim for p in groups[1]["params"]} == {1}
    counted = sum(p.numel() for g in groups for p in g["params"])
    assert counted == sum(p.numel() for p in net.parameters())


def test_the_average_is_warmed_up_and_holds_buffers():
    net = nn.BatchNorm1d(1)
    ema = build_ema(net, 0.99)
    values = [1.0, 2.0, 4.0]
    expected = 1.0
    for number, value in enumerate(values):
        with torch.no_grad():
            net.weight.fill_(value)
            net.running_mean.fill_(value)
        ema.update_parameters(net)
        if number == 0:
            expected = value  # the first update copies
        else:
            keep = min(0.99, (1 + number) / (10 + number))
            expected = keep * expected + (1 - keep) * value
    assert ema.module.weight.item() == pytest.approx(expected)
    assert ema.module.running_mean.item() == pytest.approx(expected)


def test_the_average_is_what_is_evaluated_and_kept(tmp_path):
    data = load_data("digits")
    recipe = load_recipe("quick").updated({"model": "resnet8", "iterations": 60, "ema_decay": 0.9})
    run = reslab.fit(build_net(recipe, data), data, recipe=recipe, out=tmp_path / "run")
    assert run.result.top1_error < 30
    assert reslab.evaluate(reslab.load_trained(tmp_path / "run"), data).top1_error == (
        run.result.top1_error
    )


def test_bf16_and_compile_and_plain_follow_the_same_loss(tmp_path):
    data = load_data("digits")
    losses = {}
    for name, change in {"fp32": {"precision": "fp32"}, "bf16": {"precision": "bf16"}}.items():
        recipe = load_recipe("quick").updated({"model": "resnet8", "iterations": 20} | change)
        run = reslab.fit(build_net(recipe, data), data, recipe=recipe, out=tmp_path / name)
        losses[name] = run.curve[-1].train_loss
    assert losses["bf16"] == pytest.approx(losses["fp32"], rel=0.15)


def test_what_the_device_cannot_do_is_refused():
    cpu = torch.device("cpu")
    with pytest.raises(UsageError, match="fp16 needs CUDA"):
        choose_precision("fp16", cpu)
    with pytest.raises(UsageError, match="cannot be used here"):
        choose_device("cuda:99")
    with pytest.raises(UsageError, match="tpu9"):
        choose_device("tpu9")
    assert choose_precision("auto", torch.device("mps")) == "fp32"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_classes": 7, "in_channels": 1}, "got '7 scores', expected 10 classes"),
        ({"num_classes": 10, "in_channels": 3}, "does not take this data"),
    ],
)
def test_a_net_that_does_not_fit_the_data_is_refused_before_training(tmp_path, options, message):
    with pytest.raises(ModelError, match=message):
        reslab.fit(reslab.create_model("resnet8", **options), "digits", out=tmp_path / "run")
    assert not (tmp_path / "run" / "run.json").exists()


def test_a_recipe_without_length_is_refused(tmp_path):
    with pytest.raises(RecipeError, match="Give iterations or epochs"):
        reslab.fit(TwoLayers(), (blobs(9, 0), blobs(9, 1)), recipe=Recipe(), out=tmp_path / "r")


@pytest.mark.parametrize(("min_depth", "first_rate"), [(110, 0.1), (8, 0.01)])
def test_only_nets_of_the_named_depth_wait_for_their_training_error(
    tmp_path, min_depth, first_rate
):
    recipe = load_recipe("paper").updated(
        {"model": "resnet8", "data": "digits", "iterations": 3, "batch_size": 32}
        | {"warmup_min_depth": min_depth}
    )
    data = load_data("digits")
    run = reslab.fit(build_net(recipe, data), data, recipe=recipe, out=tmp_path / "run")
    records = files.read_jsonl(run.folder.metrics)
    assert records[0]["lr"] == first_rate


def test_a_net_is_warm_once_its_recent_error_is_below_the_rules(tmp_path):
    recipe = load_recipe("paper").updated(
        {"model": "resnet8", "data": "digits", "iterations": 80, "batch_size": 32}
        | {"warmup_min_depth": 8, "milestones": "0.99", "warmup_error": 92}
    )
    data = load_data("digits")
    run = reslab.fit(build_net(recipe, data), data, recipe=recipe, out=tmp_path / "run")
    records = files.read_jsonl(run.folder.metrics)
    rates = [r["lr"] for r in records if r["kind"] == "train"]
    assert rates[0] == 0.01 and rates[-2] == 0.1 and sorted(rates[:-1]) == rates[:-1]


def test_a_train_state_survives_its_own_state_dict():
    recipe = Recipe(ema_decay=0.9, channels_last=True)
    one = TrainState(reslab.create_model("resnet8"), recipe, torch.device("cpu"))
    batch = Batch(torch.randn(4, 3, 8, 8), torch.arange(4), torch.arange(4))
    one.stepper(batch, 0.1)
    one.ema.update_parameters(one.model)
    two = TrainState(reslab.create_model("resnet8"), recipe, torch.device("cpu"))
    two.load_state_dict(copy.deepcopy(one.state_dict()))
    for state in (one, two):
        state.stepper(batch, 0.1)
    assert all(
        torch.equal(a, b)
        for a, b in zip(one.model.parameters(), two.model.parameters(), strict=True)
    )


class Overflowing(nn.Module):
    """A finite loss whose gradient is not: the root of a parameter that is zero."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.scale = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        return self.inner(x) + self.scale.sqrt()


def test_weights_that_are_not_finite_never_become_a_checkpoint(tmp_path):
    with pytest.raises(NonFiniteLossError, match=r"parameter scale is not finite after step 1"):
        reslab.fit(
            Overflowing(),
            (blobs(60, 0), blobs(30, 1)),
            recipe=Recipe(epochs=1, batch_size=10, checkpoint_every=1),
            out=tmp_path / "run",
        )
    index = files.read_json(tmp_path / "run" / "checkpoints" / "index.json")
    assert [entry["iteration"] for entry in index] == [0]


def test_a_recipe_may_name_the_weights_to_start_from(tmp_path, caplog):
    theirs = reslab.create_model("resnet8", num_classes=3, in_channels=1)
    reslab.save_weights(tmp_path / "w.safetensors", theirs)
    data = load_data("digits")
    recipe = load_recipe("quick").updated(
        {"model": "resnet8", "iterations": 1, "weights": str(tmp_path / "w.safetensors")}
    )
    with caplog.at_level("INFO", "reslab"):
        net = build_net(recipe, data)
    assert torch.equal(net.stem.conv.weight, theirs.stem.conv.weight)
    assert "skipped: head.classifier.weight" in caplog.text


def test_fit_without_data_takes_what_the_recipe_names(tmp_path):
    net = reslab.create_model("resnet8", in_channels=1)
    run = reslab.fit(net, recipe="quick", out=tmp_path / "run", overrides={"iterations": 1})
    assert run.result.samples == 360
