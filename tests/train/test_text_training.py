"""Nets that read text are trained, stopped, resumed, scored and kept like all others."""

import pytest
import torch

import reslab
from reslab.data import load_data, prepare_task
from reslab.errors import DataError, ModelError
from reslab.models.catalog import create_model
from reslab.recipe import load_recipe
from reslab.train.fit import build_net, data_of
from reslab.train.loop import RunInterrupted
from reslab.train.trained import evaluate, load_trained

SHORT = {
    "iterations": 12,
    "batch_size": 32,
    "eval_every": 6,
    "checkpoint_every": 4,
    "device": "cpu",
}
SMALL = {"width": 16, "heads": 2}


def short(model, data, **options):
    recipe = load_recipe("text").updated(SHORT)
    return recipe.updated({"model": model, "data": str(data), "model_options": options})


def run(model, data, out, *, observers=(), **options):
    recipe = short(model, data, **options)
    loaded = data_of(recipe)
    small = loaded.hold_out(64, seed=0) if len(loaded.test) > 500 else loaded
    net = build_net(recipe, small)
    return reslab.fit(net, small, recipe=recipe, out=out, observers=observers)


@pytest.mark.parametrize(
    ("model", "data", "options"),
    [
        ("transformer-tiny", "reverse", SMALL),
        ("transformer_lm_tiny", "numbers", SMALL),
        ("bert-tiny", "reverse", SMALL),
        ("bert-tiny", "numbers", SMALL | {"head": "classify"}),
        ("gru_tiny", "reverse", {"width": 16}),
        ("nplm_direct", "numbers", {"hidden": 8}),
        ("esim-tiny", "numbers", {"width": 8}),
    ],
)
def test_every_kind_of_text_net_trains_is_kept_and_scores_the_same_again(
    model, data, options, tmp_path
):
    done = run(model, data, tmp_path / "run", **options)
    assert done.result.samples > 0 and torch.isfinite(torch.tensor(done.result.loss))
    trained = load_trained(tmp_path / "run")
    assert trained.tokenizer
    again = reslab.create_model(model, **trained.model.origin.options)
    reslab.load_weights(again, tmp_path / "run" / "weights.safetensors")
    scores = evaluate(trained, load_data(data).hold_out(64, seed=0), device="cpu")
    assert scores.loss == pytest.approx(done.result.loss, rel=1e-5)
    assert scores.exact_match == done.result.exact_match
    assert (scores.exact_match is not None) == (model == "transformer-tiny")
    assert (scores.perplexity is None) == bool(scores.classes)


class StopAt:
    def __init__(self, iteration):
        self.iteration = iteration

    def record(self, values):
        if values["kind"] == "train" and values["iteration"] == self.iteration:
            raise RunInterrupted("stopped here")

    def close(self):
        pass


def test_a_stopped_run_on_masked_text_ends_with_the_same_bits(tmp_path):
    whole = run("bert-tiny", "reverse", tmp_path / "whole", **SMALL)
    with pytest.raises(RunInterrupted):
        run("bert-tiny", "reverse", tmp_path / "cut", observers=[StopAt(7)], **SMALL)
    resumed = reslab.resume(tmp_path / "cut", data=load_data("reverse").hold_out(64, seed=0))
    pairs = zip(whole.model.state_dict().items(), resumed.model.state_dict().values(), strict=True)
    assert all(torch.equal(ours, theirs) for (_, ours), theirs in pairs)


def test_text_files_are_read_with_the_tokenizer_of_the_weights(tmp_path):
    text = tmp_path / "text"
    text.mkdir()
    (text / "story.txt").write_text("the cat sat on the mat. " * 300, encoding="utf-8")
    done = run("transformer_lm_tiny", text, tmp_path / "run", **SMALL)
    other = tmp_path / "other.txt"
    other.write_text("the mat sat on the dog. " * 100, encoding="utf-8")
    scores = evaluate(load_trained(tmp_path / "run"), str(other), device="cpu")
    assert scores.perplexity > 1 and scores.samples > 0 and done.result.perplexity > 1


def test_pictures_and_text_are_not_mixed_up():
    with pytest.raises(DataError, match="this net reads text"):
        reslab.fit(create_model("bert-tiny", vocab_size=30), "digits", out="unused")
    with pytest.raises(DataError, match="text does not suit this net"):
        build_net(short("resnet20", "reverse"), load_data("reverse"))


def test_a_vocabulary_that_does_not_fit_is_refused(tmp_path):
    net = create_model("transformer-tiny", vocab_size=40, **SMALL)
    with pytest.raises(ModelError, match=r"40 scores.*expected 32.*vocab_size=32"):
        reslab.fit(net, "reverse", recipe=load_recipe("text").updated(SHORT), out=tmp_path / "run")


def test_a_target_of_minus_100_changes_neither_loss_nor_error():
    from reslab.data import build_train_loader
    from reslab.train.precision import choose_device
    from reslab.train.state import TrainState

    split = prepare_task(load_data("reverse"), "translate", length=8).test
    net = create_model("transformer-tiny", vocab_size=32, dropout=0.0, **SMALL)
    recipe = short("transformer-tiny", "reverse").updated({"accumulate": 3, "precision": "fp32"})
    state = TrainState(net, recipe, choose_device("cpu"))
    batch = next(build_train_loader(split, preprocessing=None, batch_size=32, seed=0).epoch(0))
    with torch.no_grad():
        logits = net(*batch.inputs)
    scored = batch.targets != -100
    expected = torch.nn.functional.cross_entropy(logits[scored], batch.targets[scored])
    wrong = (logits[scored].argmax(1) != batch.targets[scored]).sum()
    loss, mistakes = state.stepper(batch, 0.0)
    assert loss == pytest.approx(expected.item(), rel=1e-5) and mistakes == wrong
