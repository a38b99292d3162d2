"""What differs between nets is read off the nets."""

import json

from click.testing import CliRunner

from reslab.cli.models import models
from reslab.models.compare import PARTS, describe_parts


def test_plain_and_residual_nets_differ_in_the_shortcut_alone():
    plain, residual = describe_parts("plain20"), describe_parts("resnet20")
    assert [part for part in PARTS if plain[part] != residual[part]] == ["shortcut"]
    assert plain["shortcut"] == "Zero"


def test_a_bottleneck_is_told_from_a_basic_block():
    basic, bottleneck = describe_parts("resnet34"), describe_parts("resnet50")
    assert "conv 1x1" in bottleneck["branch"] and "conv 1x1" not in basic["branch"]
    assert basic["stem"] == bottleneck["stem"] == "conv 7x7/2 - batch norm - ReLU - max pool"
    assert basic["blocks"] == bottleneck["blocks"] == "16 (3 + 4 + 6 + 3)"


def test_the_command_shows_what_differs_and_what_is_the_same():
    result = CliRunner().invoke(models, ["--compare", "plain20", "resnet20"])
    assert result.exit_code == 0
    assert "shortcut" in result.output and "the same in all: depth 20" in result.output
    as_json = CliRunner().invoke(models, ["--compare", "plain20", "resnet20", "--json"])
    assert json.loads(as_json.output)["plain20"]["shortcut"] == "Zero"


def test_comparing_takes_two_nets_and_a_pattern_takes_one():
    for arguments in (["--compare", "resnet20"], ["resnet20", "plain20"]):
        result = CliRunner().invoke(models, arguments)
        assert result.exit_code == 2 and "Traceback" not in result.output
