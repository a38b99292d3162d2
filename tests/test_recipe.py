"""Recipes: one set of values as dataclass, YAML and flags; nothing wrong passes silently."""

import dataclasses

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from reslab.errors import RecipeError, UnknownNameError
from reslab.recipe import Recipe, list_recipes, load_recipe, write_recipe


def test_the_paper_recipe_is_he_2015_section_4_2():
    paper = load_recipe("paper")
    assert (paper.iterations, paper.batch_size, paper.lr) == (64_000, 128, 0.1)
    assert [m * paper.iterations for m in paper.milestones] == [32_000, 48_000]
    assert (paper.momentum, paper.weight_decay, paper.lr_factor) == (0.9, 1e-4, 0.1)
    assert (paper.warmup, paper.warmup_lr, paper.warmup_error) == ("until_error", 0.01, 80)
    assert paper.warmup_min_depth == 110
    assert (paper.crop_padding, paper.flip, paper.normalize) == (4, True, "pixel_mean")
    assert not paper.nesterov and paper.label_smoothing == 0 and paper.holdout == 0


def test_the_imagenet_recipe_is_he_2015_section_3_4():
    recipe = load_recipe("imagenet-2015")
    assert (recipe.iterations, recipe.batch_size, recipe.lr) == (600_000, 256, 0.1)
    assert (recipe.crop, recipe.image_size, recipe.weight_decay) == ("short_side", 224, 1e-4)


@pytest.mark.parametrize("name", list_recipes())
def test_a_recipe_survives_its_yaml_file(name, tmp_path):
    recipe = load_recipe(name)
    assert recipe.name == name and recipe.without_effect == []
    write_recipe(tmp_path / "r.yaml", recipe)
    assert load_recipe(tmp_path / "r.yaml") == recipe


@given(
    st.builds(
        dict,
        lr=st.floats(0, 10),
        iterations=st.integers(1, 10**7) | st.none(),
        flip=st.booleans(),
        clip_norm=st.none() | st.floats(0, 100),
        milestones=st.lists(st.floats(0.01, 0.99), max_size=4).map(sorted),
        schedule=st.sampled_from(["step", "cosine", "linear", "constant"]),
    )
)
def test_flags_files_and_values_say_the_same(values):
    recipe = Recipe(**values)
    assert Recipe().updated(yaml.safe_load(yaml.safe_dump(recipe.to_dict()))) == recipe
    as_flags = {
        k: ",".join(map(str, v)) if isinstance(v, list) else str(v) for k, v in values.items()
    }
    assert Recipe().updated(as_flags) == dataclasses.replace(recipe)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 0}, "batch_size is out of range: got 0, expected 1 or more"),
        ({"batch_size": "many"}, "batch_size has the wrong type: got 'many', expected int"),
        ({"batch_size": 1.5}, "batch_size has the wrong type"),
        ({"flip": "maybe"}, "flip has the wrong type"),
        ({"lr": float("nan")}, "lr is out of range"),
        ({"schedule": "cosin"}, "Did you mean cosine"),
        ({"milestones": "0.7,0.5"}, "milestones are wrong"),
        ({"milestones": "32000"}, "fractions of the budget"),
        ({"iterations": 10, "epochs": 1}, "one length"),
        ({"accumulate": 256}, "at most batch_size"),
        ({"lr": "[1"}, "lr cannot be read"),
        ({"epochs": "inf"}, "has the wrong type|out of range"),
        ({"epochs": float("inf")}, "expected a finite number"),
        ({"nesterov": True, "momentum": 0}, "nesterov needs momentum"),
        ({"seed": 2**70}, "seed is out of range"),
    ],
)
def test_a_wrong_value_is_refused_by_name(changes, message):
    with pytest.raises(RecipeError, match=message):
        Recipe().updated(changes)


def test_a_misspelt_key_gets_the_nearest_name(tmp_path):
    with pytest.raises(UnknownNameError, match="weight_decay"):
        Recipe().updated({"wieght_decay": 1})
    (tmp_path / "mine.yaml").write_text("learning_rte: 1\n")
    with pytest.raises(UnknownNameError, match="learning_rte"):
        load_recipe(tmp_path / "mine.yaml")


def test_a_misspelt_recipe_gets_the_nearest_name():
    with pytest.raises(UnknownNameError, match="Did you mean paper"):
        load_recipe("papper")


def test_a_broken_file_is_one_sentence(tmp_path):
    (tmp_path / "mine.yaml").write_text("a: [1\n")
    with pytest.raises(RecipeError, match=r"mine\.yaml is not YAML"):
        load_recipe(tmp_path / "mine.yaml")
    (tmp_path / "list.yaml").write_text("- 1\n")
    with pytest.raises(RecipeError, match="key: value"):
        load_recipe(tmp_path / "list.yaml")


def test_an_option_without_effect_is_named():
    recipe = Recipe(schedule="cosine", milestones=(0.1,))
    assert recipe.without_effect == ["milestones=(0.1,) has no effect: schedule is cosine"]
