"""`reslab data`: what it prints and how it ends."""

import json

import cifar_toy as toy
import pytest
from click.testing import CliRunner

from reslab.cli.data import data
from reslab.data import cifar_get
from reslab.errors import DataError, UnknownNameError, UsageError


def run(*arguments, **environment):
    return CliRunner().invoke(
        data, [str(a) for a in arguments], env=environment, standalone_mode=False
    )


@pytest.mark.parametrize("command", ["get", "check", "list"])
def test_every_command_has_examples(command):
    assert "Examples:\n" in run(command, "--help").output


def test_the_list_says_where_each_set_is(tmp_path):
    (tmp_path / "cifar100.safetensors").write_bytes(b"")
    output = run("list", "--root", tmp_path).output
    assert "comes with reslab" in output
    assert "not here: reslab data get cifar10" in output
    assert "cifar100.safetensors" in output


def test_a_clean_folder_ends_with_0_and_says_so(make_folder):
    result = run("check", make_folder({"train/a": 2, "val/a": 1}, (40, 40)))
    assert (result.exit_code, result.return_value) == (0, None)
    assert "1 classes; pictures: 2 in train, 1 in val" in result.output
    assert "nothing is wrong" in result.output


def test_a_folder_with_errors_ends_with_1_and_names_the_files(make_folder):
    folder = make_folder({"train/a": 2, "val/a": 1}, (40, 40))
    (folder / "train/a/bad.jpg").write_bytes(b"<html>")
    result = run("check", folder, "--workers", 1)
    assert isinstance(result.exception, DataError)
    assert result.exception.exit_code == 1
    assert "has errors (other_content)" in str(result.exception)
    assert "error: 1 files that are no pictures" in result.output
    assert "train/a/bad.jpg: a web page (HTML)" in result.output


def test_the_report_can_be_json(make_folder):
    result = CliRunner().invoke(data, ["check", str(make_folder({"a": 5})), "--json"])
    report = json.loads(result.stdout)
    assert report["pictures"] == {"all": 5}
    assert result.exit_code == 0


def test_a_path_that_is_no_folder_is_left_to_the_central_printing(tmp_path):
    assert isinstance(run("check", tmp_path / "gone").exception, DataError)


def test_a_set_that_needs_no_getting_or_is_unknown_is_refused():
    assert "comes with reslab" in str(run("get", "digits").exception)
    assert isinstance(run("get", "digits").exception, UsageError)
    assert isinstance(run("get", "cifar11").exception, UnknownNameError)


@pytest.mark.parametrize("way", ["option", "environment"])
def test_a_set_is_kept_under_the_root(tmp_path, monkeypatch, way):
    monkeypatch.setattr(cifar_get, "CIFAR10", toy.toy_spec())
    source = toy.write_npz(tmp_path / "mine.npz")
    root = tmp_path / "kept"
    arguments = ["get", "cifar10", "--from", source]
    if way == "option":
        result = run(*arguments, "--root", root)
    else:
        result = run(*arguments, RESLAB_DATA=str(root))
    assert result.exception is None
    assert result.stdout == f"{root / 'cifar10.safetensors'}\n"
    assert f"reading {source}" in result.stderr
    assert (root / "cifar10.safetensors").is_file()
