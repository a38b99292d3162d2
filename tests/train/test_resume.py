"""A run that is killed and resumed ends exactly like one that was never stopped."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
import torch

import reslab
from reslab import files
from reslab.data import load_data
from reslab.errors import DataError, RunError
from reslab.models.weights import read_metadata
from reslab.recipe import load_recipe
from reslab.train.checkpoint import Checkpoints
from reslab.train.fit import build_net
from reslab.train.loop import RunInterrupted

# Everything random is in play: order, crops, dropped branches, an average of weights.
FLAGS = [
    "--data=digits", "-m", "drop_path=0.3", "--iterations=160", "--batch-size=50",
    "--crop-padding=1", "--ema-decay=0.9", "--checkpoint-every=7", "--eval-every=40",
    "--warmup=linear", "--warmup-fraction=0.1", "--clip-norm=2", "--accumulate=2",
]  # fmt: skip


def reslab_command(*arguments):
    code = "from reslab.cli.main import main; main()"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process):
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    return output


def series(run):
    timing = {"samples_per_second"}
    return [
        {k: v for k, v in record.items() if k not in timing}
        for record in files.read_jsonl(run / "metrics.jsonl")
    ]


def weights(path):
    from safetensors.torch import load_file

    return load_file(path)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "unbroken"
    finish(reslab_command("train", "resnet8", *FLAGS, f"--out={run}"))
    return run


@pytest.mark.parametrize("seed", [0, 1])
def test_weights_and_series_are_bit_equal_after_sigkill_at_random_instants(
    unbroken, tmp_path, seed
):
    instants = random.Random(seed)
    run = tmp_path / "killed"
    process = reslab_command("train", "resnet8", *FLAGS, f"--out={run}")
    for _ in range(2):
        while not (run / "checkpoints" / "index.json").exists() and process.poll() is None:
            time.sleep(0.01)
        time.sleep(instants.uniform(0, 1.2))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        process = reslab_command("resume", run)
        time.sleep(2.0)  # importing torch takes about this long
    finish(process)
    ours, theirs = weights(run / "weights.safetensors"), weights(unbroken / "weights.safetensors")
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[k], theirs[k]) for k in ours)
    assert series(run) == series(unbroken)


def test_ctrl_c_saves_says_how_to_go_on_and_the_end_is_the_same(unbroken, tmp_path):
    run = tmp_path / "stopped"
    process = reslab_command("train", "resnet8", *FLAGS, f"--out={run}")
    while not (run / "metrics.jsonl").exists() or not files.read_jsonl(run / "metrics.jsonl"):
        time.sleep(0.01)
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1 and f"reslab resume {run}" in output, output
    assert files.read_json(run / "run.json")["status"] == "interrupted"
    finish(reslab_command("resume", run))
    assert series(run) == series(unbroken)


def small_run(tmp_path, **overrides):
    recipe = load_recipe("quick").updated(
        {"model": "resnet8", "iterations": 12, "checkpoint_every": 4} | overrides
    )
    data = load_data("digits")
    return build_net(recipe, data), data, recipe, tmp_path / "run"


class StopAt:
    """Asks to stop, as Ctrl-C does, when an iteration is reached."""

    def __init__(self, iteration):
        self.iteration = iteration

    def record(self, values):
        if values["kind"] == "train" and values["iteration"] == self.iteration:
            os.kill(os.getpid(), signal.SIGINT)

    def close(self):
        pass


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(tmp_path, caplog):
    net, data, recipe, out = small_run(tmp_path, keep_checkpoints=2)
    with pytest.raises(RunInterrupted, match="iteration 8"):
        reslab.fit(net, data, recipe=recipe, out=out, observers=[StopAt(8)])
    newest = max((out / "checkpoints").glob("*.pt"))
    newest.write_bytes(newest.read_bytes()[:-100])
    run = reslab.resume(out)
    assert f"{newest} is damaged" in caplog.text
    assert run.folder.is_finished() and len(files.read_jsonl(out / "metrics.jsonl")) >= 12
    assert [r["iteration"] for r in series(out) if r["kind"] == "train"] == list(range(1, 13))


def test_no_whole_checkpoint_is_one_sentence(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=1)
    path = checkpoints.save({"a": torch.zeros(3)}, 1)
    path.write_bytes(b"")
    with pytest.raises(RunError, match="no whole checkpoint"):
        checkpoints.load_latest(torch.device("cpu"))


def test_only_the_last_checkpoints_are_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=2)
    for iteration in (1, 2, 3):
        checkpoints.save({"i": iteration}, iteration)
    assert sorted(p.name for p in tmp_path.glob("*.pt")) == [
        "iteration-00000002.pt",
        "iteration-00000003.pt",
    ]
    assert checkpoints.load_latest(torch.device("cpu")) == {"i": 3}


def test_a_finished_run_is_returned_as_it_is(tmp_path):
    net, data, recipe, out = small_run(tmp_path)
    first = reslab.fit(net, data, recipe=recipe, out=out)
    before = (out / "weights.safetensors").read_bytes()
    again = reslab.resume(out)
    assert again.result.confusion == first.result.confusion
    assert (out / "weights.safetensors").read_bytes() == before


def test_a_folder_with_a_run_is_refused_with_the_way_on(tmp_path):
    net, data, recipe, out = small_run(tmp_path)
    reslab.fit(net, data, recipe=recipe, out=out)
    with pytest.raises(RunError, match="reslab resume"):
        reslab.fit(build_net(recipe, data), data, recipe=recipe, out=out)
    with pytest.raises(RunError, match=r"another recipe \(lr is 0.05 there\): got 0.5"):
        reslab.fit(net, data, recipe=recipe, out=out, overrides={"lr": 0.5})


def test_data_that_changed_since_the_start_is_refused(tmp_path):
    net, data, recipe, out = small_run(tmp_path)
    reslab.fit(net, data, recipe=recipe, out=out)
    about = files.read_json(out / "run.json")
    about["data_sums"] = dict.fromkeys(about["data_sums"], "0" * 64)
    files.write_json(out / "run.json", about)
    with pytest.raises(DataError, match="data changed since the run started"):
        reslab.resume(out)


def test_a_folder_that_is_no_run_is_named(tmp_path):
    with pytest.raises(RunError, match="no run folder"):
        reslab.resume(tmp_path)


def test_weights_travel_with_classes_preprocessing_and_recipe(tmp_path):
    net, data, recipe, out = small_run(tmp_path)
    reslab.fit(net, data, recipe=recipe, out=out)
    about = read_metadata(out / "weights.safetensors")
    assert about["classes"] == list("0123456789")
    assert about["preprocessing"]["size"] == [8, 8]
    assert about["recipe"]["iterations"] == 12


def test_a_run_without_any_checkpoint_does_not_start_from_other_weights(tmp_path):
    net, data, recipe, out = small_run(tmp_path)
    with pytest.raises(RunInterrupted):
        reslab.fit(net, data, recipe=recipe, out=out, observers=[StopAt(4)])
    (out / "checkpoints" / "index.json").unlink()
    before = (out / "metrics.jsonl").read_bytes()
    with pytest.raises(RunError, match="holds no checkpoint"):
        reslab.resume(out)
    assert (out / "metrics.jsonl").read_bytes() == before
