"""The degradation study end to end, on tiny nets: fair arms, resumable, honest."""

import os
import signal
import subprocess
import sys
import time

import pytest

from reslab import files
from reslab.errors import RunError, UsageError
from reslab.recipe import load_recipe
from reslab.records import StudyResult, from_json, to_json
from reslab.studies.arms import run_arms
from reslab.studies.degradation import DegradationStudy, run_degradation

TINY = load_recipe("quick").updated({"iterations": 6, "log_every": 1})


def study(out, **changes):
    defaults = {"recipe": TINY, "out": out, "depths": (8, 14), "seeds": 1, "jobs": 2}
    return DegradationStudy(**(defaults | changes))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("study")
    events = []
    result = run_degradation(study(out), on_progress=events.append)
    return out, result, events


def test_every_arm_has_equal_parameters_budget_and_order(finished):
    out, result, _ = finished
    assert [a.name for a in result.arms] == ["plain-8", "plain-14", "resnet-8", "resnet-14"]
    counts = {a.depth: set() for a in result.arms}
    for arm in result.arms:
        counts[arm.depth].add(arm.parameters)
        assert arm.curve[-1].iteration == 6
        assert len(arm.gradients_start) == len(arm.gradients_end) == arm.depth
    assert all(len(c) == 1 for c in counts.values())
    recipes = [files.read_json(out / "arms" / a.folder / "run.json")["recipe"] for a in result.arms]
    for recipe in recipes:
        del recipe["model"]
    assert all(recipe == recipes[0] for recipe in recipes)


def test_progress_reaches_the_end_of_every_arm(finished):
    _, result, events = finished
    last = {event.arm: (event.iteration, event.total) for event in events}
    assert last == {arm.name: (6, 6) for arm in result.arms}


def test_insertion_keeps_the_function_of_the_trained_net(finished):
    _, result, _ = finished
    (inserted,) = result.deepened
    assert (inserted.depth_before, inserted.depth_after) == (8, 14)
    assert inserted.train_error_after == inserted.train_error_before
    assert inserted.train_error_before == result.arms[0].final_train_error
    assert inserted.largest_logit_change < 1e-4


def test_the_result_survives_json(finished):
    _, result, _ = finished
    assert from_json(StudyResult, to_json(result)) == result
    assert [claim.key for claim in result.claims] == list("abcde")


def test_finished_arms_are_not_trained_again(finished):
    out, result, _ = finished
    before = {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()}
    events = []
    again = run_degradation(study(out), on_progress=events.append)
    assert events == [] and again.arms == result.arms
    assert {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()} == before


def test_arms_of_another_recipe_are_refused_by_name(finished):
    out, _, _ = finished
    other = study(out, recipe=TINY.updated({"lr": 0.7}))
    with pytest.raises(RunError, match=r"another recipe \(lr is 0.05 there\): got 0.7"):
        run_degradation(other)


def test_arms_of_other_data_are_refused_by_name(finished):
    out, _, _ = finished
    other = study(out, recipe=TINY.updated({"data": "cifar10"}))
    with pytest.raises(RunError, match=r"data is 'digits' there\): got 'cifar10'"):
        run_arms(other.arms(), jobs=1, on_progress=lambda _: None)


SCRIPT = """
import sys
from pathlib import Path
from reslab.recipe import load_recipe
from reslab.studies.arms import run_arms
from reslab.studies.degradation import DegradationStudy, run_degradation
if __name__ == "__main__":
    recipe = load_recipe("quick").updated({"iterations": 100, "checkpoint_every": 10})
    run_degradation(DegradationStudy(recipe=recipe, out=Path(sys.argv[1]), depths=(8,),
                                     kinds=("plain", "resnet"), seeds=1, jobs=2))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_study_leaves_no_process_behind_and_goes_on(tmp_path, number):
    script = tmp_path / "go.py"
    script.write_text(SCRIPT)
    out = tmp_path / "study"
    command = [sys.executable, str(script), str(out)]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
    index = out / "arms" / "plain-8-seed0" / "checkpoints" / "index.json"
    while not index.exists() or files.read_json(index)[-1]["iteration"] == 0:
        time.sleep(0.02)
        assert process.poll() is None
    if number == signal.SIGKILL:
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    process.wait(timeout=30)
    deadline = time.monotonic() + 10
    with files.locked(out / "arms" / "plain-8-seed0", wait_seconds=10):
        assert time.monotonic() < deadline
    subprocess.run(command, check=True, timeout=120)
    assert (
        files.read_json(out / "arms" / "plain-8-seed0" / "arm.json")["curve"][-1]["iteration"]
        == 100
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kinds": ("plane",)}, "Did you mean plain"),
        ({"depths": ()}, "depths are wrong"),
        ({"depths": (20, 20)}, "different values"),
        ({"depths": (21,)}, "Nearest: 20 or 26"),
        ({"seeds": 0}, "seeds is wrong"),
        ({"jobs": 0}, "jobs is wrong"),
    ],
)
def test_a_study_that_cannot_be_is_refused(tmp_path, changes, message):
    with pytest.raises(UsageError, match=message):
        study(tmp_path, **changes)
