import json
from dataclasses import replace

import pytest

from reslab.records import LayerNorm
from reslab.report.arms import group_arms
from reslab.report.curves import error_chart, error_limit, measured_curves
from reslab.report.deepening import deepening_chart
from reslab.report.gradients import gradient_chart

from .synthetic import arm, deepened, study


def lines(figure):
    return [trace for trace in figure["data"] if trace["meta"]["role"] == "line"]


def test_the_curves_of_one_seed_are_the_records_figures():
    result = study()
    chart = error_chart(group_arms(result.arms))
    assert [panel.title for panel in chart.panels] == ["Plain nets", "Residual nets"]
    training, test = lines(chart.panels[0].figures["mean"])[:2]
    curve = result.arms[0].curve
    assert training["x"] == [point.iteration for point in curve]
    assert training["y"] == [point.train_error for point in curve]
    assert test["y"] == [point.test_error for point in curve]
    assert test["line"]["width"] > training["line"]["width"]


def test_one_seed_has_no_bands_and_no_switch():
    chart = error_chart(group_arms(study().arms))
    assert chart.variants == ()
    assert all(t["meta"]["role"] == "line" for p in chart.panels for t in p.figures["mean"]["data"])


def test_bands_span_the_lowest_and_the_highest_seed():
    result = study(names=("plain-56",), seeds=3)
    figure = error_chart(group_arms(result.arms)).panels[0].figures["mean"]
    band, steps = figure["data"][0], len(result.arms[0].curve)
    at_first_step = [run.curve[0].train_error for run in result.arms]
    assert band["meta"]["role"] == "band"
    assert band["y"][0] == max(at_first_step)
    assert band["y"][-1] == min(at_first_step)
    assert band["x"][:steps] == band["x"][steps:][::-1]


def test_every_seed_has_its_own_line_in_the_other_view():
    result = study(names=("plain-20", "plain-56"), seeds=3)
    figure = error_chart(group_arms(result.arms)).panels[0].figures["seeds"]
    assert len(figure["data"]) == 2 * 2 * 3
    assert figure["data"][2]["name"] == "plain-20 training, seed 2"
    assert figure["data"][2]["y"] == [point.train_error for point in result.arms[4].curve]


def test_panels_share_a_scale_from_zero():
    chart = error_chart(group_arms(study().arms))
    ranges = [panel.figures["mean"]["layout"]["yaxis"]["range"] for panel in chart.panels]
    assert ranges[0] == ranges[1]
    assert -2 < ranges[0][0] <= 0
    assert ranges[0][1] == 100


def test_the_scale_is_made_for_the_end_of_training_and_says_what_it_cuts():
    groups = group_arms([arm("resnet-20", end=7.0)])
    curves = measured_curves(groups)
    assert error_limit(curves) < 90
    assert any("first iterations lie above" in note for note in error_chart(groups).notes)


def test_a_kind_with_no_arms_has_no_panel():
    chart = error_chart(group_arms(study(names=("plain-20",)).arms))
    assert [panel.title for panel in chart.panels] == ["Plain nets"]


def test_names_cannot_be_markup_in_a_label():
    run = replace(arm("plain-20"), name='<a href="x">$\\frac</a>')
    trace = error_chart(group_arms([run])).panels[0].figures["mean"]["data"][0]
    assert "<" not in trace["name"]
    assert "&lt;a" in trace["name"]


def test_gradients_run_from_the_first_layer_to_the_last():
    result = study()
    chart = gradient_chart(group_arms(result.arms))
    start, end = chart.panels[0].figures["norm"]["data"][:2]
    assert start["x"] == [0, 0.5, 1]
    assert start["y"] == [layer.norm for layer in result.arms[0].gradients_start]
    assert end["y"] == [layer.norm for layer in result.arms[0].gradients_end]
    relative = chart.panels[0].figures["relative"]["data"][0]
    assert relative["y"] == [layer.relative for layer in result.arms[0].gradients_start]
    assert chart.panels[0].figures["norm"]["layout"]["yaxis"]["type"] == "log"


def test_a_gradient_of_zero_is_a_gap_that_the_notes_count():
    dead = (LayerNorm(layer="a", norm=0.0, relative=0.0), LayerNorm(layer="b", norm=1, relative=1))
    run = replace(arm("plain-20"), gradients_start=dead, gradients_end=())
    chart = gradient_chart(group_arms([run]))
    assert chart.panels[0].figures["norm"]["data"][0]["y"] == [None, 1]
    assert any(note.startswith("1 of 2 measured norms") for note in chart.notes)


def test_a_net_of_1202_layers_has_1202_points():
    layers = tuple(LayerNorm(layer=f"l{i}", norm=1.0, relative=1.0) for i in range(1202))
    run = replace(arm("resnet-1202"), gradients_start=layers)
    assert len(gradient_chart(group_arms([run])).panels[0].figures["norm"]["data"][0]["x"]) == 1202


def test_the_deepening_picture_has_source_construction_and_rival():
    chart = deepening_chart([deepened(0), deepened(1)])
    (panel,) = chart.panels
    assert panel.title == "plain-20, 36 identity layers put in"
    assert [bar["x"] for bar in panel.figures["mean"]["data"]] == [[0.3], [0.3], [70.5]]
    labels = [note["text"] for note in panel.figures["mean"]["layout"]["annotations"]]
    assert labels[2] == "56 layers, from scratch: <b>70.50 ± 0.71 %</b>"


def test_charts_of_nothing_are_none():
    bare = replace(arm("plain-20"), curve=(), gradients_start=(), gradients_end=())
    assert error_chart(group_arms([bare])) is None
    assert gradient_chart(group_arms([bare])) is None
    assert deepening_chart([]) is None


@pytest.mark.parametrize("seeds", [1, 3])
def test_figures_are_plain_json(seeds):
    groups = group_arms(study(seeds=seeds).arms)
    for chart in (error_chart(groups), gradient_chart(groups), deepening_chart([deepened()])):
        for panel in chart.panels:
            json.dumps(panel.figures, allow_nan=False)
