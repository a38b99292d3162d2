from dataclasses import replace

import pytest

from reslab.records import LayerNorm
from reslab.report.arms import group_arms, mean_curve, mean_norms, series_of, spread_of

from .synthetic import arm


def test_a_spread_is_that_of_the_sample():
    spread = spread_of([1.0, 2.0, 6.0])
    assert (spread.mean, spread.low, spread.high, spread.count) == (3.0, 1.0, 6.0, 3)
    assert spread.deviation == pytest.approx(7.0**0.5)


def test_one_value_has_no_deviation_and_no_value_no_spread():
    assert spread_of([4.0]).deviation is None
    assert spread_of([None, float("nan")]) is None


def test_arms_are_grouped_by_name_plain_first_shallow_first():
    names = ["resnet-56", "plain-110", "highway-20", "plain-20", "resnet-20"]
    groups = group_arms([arm(name, seed=seed) for seed in (1, 0) for name in names])
    assert [g.name for g in groups] == [
        "plain-20",
        "plain-110",
        "resnet-20",
        "resnet-56",
        "highway-20",
    ]
    assert [run.seed for run in groups[0].runs] == [0, 1]


def test_a_depth_has_one_colour_in_all_kinds():
    groups = group_arms([arm(n) for n in ("plain-20", "plain-56", "resnet-20", "resnet-56")])
    assert series_of(groups) == {"plain-20": 0, "plain-56": 1, "resnet-20": 0, "resnet-56": 1}


def test_two_arms_of_one_kind_and_depth_have_different_colours():
    groups = group_arms([arm("plain-20"), replace(arm("plain-20"), name="plain-20 warm")])
    assert len(set(series_of(groups).values())) == 2


def test_a_mean_curve_has_only_what_every_seed_measured():
    short, whole = arm("plain-20", seed=0, points=3), arm("plain-20", seed=1)
    (group,) = group_arms([short, whole])
    curve = mean_curve(group, "train_error")
    assert [step for step, _ in curve] == [20, 40, 60]
    expected = (short.curve[1].train_error + whole.curve[1].train_error) / 2
    assert curve[1][1].mean == pytest.approx(expected)


def test_points_without_a_test_error_are_left_out():
    run = arm("plain-20")
    run = replace(run, curve=(replace(run.curve[0], test_error=None), *run.curve[1:]))
    assert len(mean_curve(group_arms([run])[0], "test_error")) == len(run.curve) - 1


def test_norms_are_averaged_layer_by_layer():
    one = (LayerNorm(layer="a", norm=1.0, relative=0.1), LayerNorm(layer="b", norm=3.0, relative=1))
    two = (LayerNorm(layer="a", norm=3.0, relative=0.3), LayerNorm(layer="b", norm=5.0, relative=1))
    assert mean_norms([one, (), two], "norm") == (("a", 2.0), ("b", 4.0))
