"""The command line as a user meets it: exit codes, one sentence an error, no traceback.

Most commands run in this process, because importing torch takes seconds; what is about processes
themselves (exit codes, completion, start-up time) runs in real ones.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
import time

import pytest
from PIL import Image

from reslab.cli.console import progress
from reslab.cli.main import _run


def reslab(*arguments, cwd="."):
    """The command in this process, as a CompletedProcess."""
    before, out, err = sys.argv, io.StringIO(), io.StringIO()
    streams = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
    with contextlib.chdir(cwd), streams[0], streams[1]:
        try:
            sys.argv = ["reslab", *map(str, arguments)]
            code = _run()
        finally:
            sys.argv = before
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def reslab_process(*arguments, cwd=None, **environment):
    """The command in a process of its own."""
    code = "from reslab.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=os.environ | environment,
        timeout=120,
    )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["models", "resnet20"], 0), (["models", "nonsense"], 2), (["resume", "nowhere"], 1)],
)
def test_exit_codes_reach_the_shell(arguments, code):
    done = reslab_process(*arguments)
    assert done.returncode == code and "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    done = reslab("train", "resnet8", "--iterations=30", "--out=run", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "run"


COMMANDS = [
    [],
    ["study"],
    ["study", "degradation"],
    ["train"],
    ["resume"],
    ["eval"],
    ["predict"],
    ["models"],
    ["recipes"],
    ["data"],
    ["data", "get"],
    ["data", "check"],
    ["data", "list"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_help_has_examples(command):
    done = reslab(*command, "--help")
    assert done.returncode == 0 and "Examples:" in done.stdout and "  reslab " in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["trian"], 2, "No such command 'trian'"),
        (["train", "resnt20"], 2, "Did you mean resnet20"),
        (["train", "resnet21"], 2, "Nearest: 14, 20, 26"),
        (["train", "resnet8", "--data", "digts"], 2, "Did you mean digits"),
        (["train", "resnet8", "--recipe", "papper"], 2, "Did you mean paper"),
        (["train", "resnet8", "--lr", "fast"], 2, "lr has the wrong type: got 'fast'"),
        (["train", "resnet8", "--lrr", "1"], 2, "--lr"),
        (["train", "resnet8", "-m", "shortcutt=A"], 2, "Did you mean shortcut"),
        (["train", "resnet8", "-m", "shortcut"], 2, "KEY=VALUE"),
        (["train", "resnet8", "--device", "tpu9"], 2, "tpu9"),
        (["train", "resnet8", "--precision", "fp16", "--device", "cpu"], 2, "fp16 needs CUDA"),
        (["train", "resnet8", "--weights", "nowhere.pt"], 1, "no weights file at nowhere.pt"),
        (["train", "resnet8", "-m", "num_classes=7"], 2, "expected 10 classes"),
        (["resume", "nowhere"], 1, "nowhere is no run folder"),
        (["eval", "nowhere.pt"], 1, "no weights file at nowhere.pt"),
        (["eval", "x.pt", "--mean", "a"], 2, "not numbers"),
        (["predict", "nowhere.pt", "a.jpg"], 1, "no weights file"),
        (["models", "zzz9*"], 2, "unknown model"),
        (["recipes", "papper"], 2, "Did you mean paper"),
        (["study", "degradation", "--depths", "20,57"], 2, "Nearest: 56 or 62"),
        (["study", "degradation", "--depths", "x"], 2, "no list"),
        (["study", "degradation", "--arms", "plan"], 2, "Did you mean plain"),
        (["study", "degradation", "--seeds", "0"], 2, "expected 1 or more"),
        (["study", "degredation"], 2, "No such command"),
        (["data", "get", "cifar11"], 2, "cifar10"),
        (["data", "check", "nowhere"], 1, "nowhere"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_input_is_one_sentence_with_the_right_code(tmp_path, arguments, code, sentence):
    done = reslab(*arguments, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert sentence in done.stderr and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_train_eval_predict_and_resume_agree(run, tmp_path):
    scored = json.loads(reslab("eval", run, "--json").stdout)
    about = json.loads((run / "run.json").read_text())
    assert scored["confusion"] == about["result"]["confusion"]
    assert scored["samples"] == 360 and len(scored["per_class_accuracy"]) == 10
    again = reslab("resume", run)
    assert again.returncode == 0 and "finished already" in again.stderr


def test_predicting_the_test_set_one_by_one_equals_evaluation_to_the_digit(run, tmp_path):
    from reslab.data import load_data

    test = load_data("digits").test
    for number, image in enumerate(test.images):
        Image.fromarray(image[0].numpy()).save(tmp_path / f"{number:03d}.png")
    done = reslab("predict", run, tmp_path, "--json")
    labels = [json.loads(line)["label"] for line in done.stdout.splitlines()]
    right = sum(int(a) == int(b) for a, b in zip(labels, test.labels, strict=True))
    scored = json.loads(reslab("eval", run, "--json").stdout)
    assert 100 * right / 360 == scored["top1_accuracy"]


def test_weights_of_others_are_scored_by_name(tmp_path):
    import torch

    import reslab as library

    net = library.create_model("resnet8", in_channels=1)
    torch.save(library.state_dict_for(net, "torchvision"), tmp_path / "theirs.pt")
    arguments = ["eval", "theirs.pt", "--model", "resnet8", "-m", "in_channels=1"]
    fits = reslab(
        *arguments, "--data", "digits", "--mean", "0.3", "--std", "0.4", "--json", cwd=tmp_path
    )
    assert fits.returncode == 0, fits.stderr
    assert json.loads(fits.stdout)["samples"] == 360
    channels = reslab(*arguments, "--data", "digits", cwd=tmp_path)
    assert channels.returncode == 1 and "3 channels" in channels.stderr
    nameless = reslab("eval", "theirs.pt", "--data", "digits", cwd=tmp_path)
    assert nameless.returncode == 1 and "--model NAME" in nameless.stderr


def test_a_full_disk_loses_nothing_and_is_one_sentence(tmp_path):
    (tmp_path / "runs").write_text("a file where the folder should be")
    done = reslab("train", "resnet8", "--iterations=3", cwd=tmp_path)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert (tmp_path / "runs").read_text().startswith("a file")


def test_models_as_json_and_by_pattern():
    listed = json.loads(reslab("models", "resnet1?", "--json").stdout)
    assert [m["name"] for m in listed] == ["resnet18"]
    listed = json.loads(reslab("models", "resnet1*0", "--json").stdout)
    assert listed[0]["parameters"] == 1_727_962
    assert json.loads(reslab("models", "resnet26", "--json").stdout)[0]["depth"] == 26


def test_a_printed_recipe_can_be_trained_from(tmp_path):
    (tmp_path / "mine.yaml").write_text(reslab("recipes", "quick").stdout)
    done = reslab(
        "train", "resnet8", "--recipe=mine.yaml", "--iterations=2", "--out=r", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "iterations: 2" in (tmp_path / "r" / "recipe.yaml").read_text()


def test_help_answers_within_half_a_second_of_processor_time():
    # Processor time of the child, so that a busy machine does not decide.
    import resource

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert reslab_process("--help").returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime - before.ru_utime < 0.5


def test_shell_completion_completes_commands():
    done = subprocess.run(
        [sys.executable, "-c", "from reslab.cli.main import cli; cli(prog_name='reslab')"],
        capture_output=True,
        text=True,
        env=os.environ
        | {"_RESLAB_COMPLETE": "bash_complete", "COMP_WORDS": "reslab tr", "COMP_CWORD": "1"},
    )
    assert "plain,train" in done.stdout


def test_progress_without_a_terminal_is_plain_lines_with_time_left(capsys, monkeypatch):
    clock = iter([0.0, 6.0, 7.0, 20.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    with progress("checking", 10, "pictures") as advance:
        advance(3, note="a.jpg")
        advance(1)
        advance(6)
    assert capsys.readouterr().err.splitlines() == [
        "checking: 3 of 10 pictures, 14 s left, a.jpg",
        "checking: 10 of 10 pictures, 0 s left",
    ]
