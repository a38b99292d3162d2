"""The learning rate against values worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reslab.recipe import Recipe, load_recipe
from reslab.train.schedule import learning_rate


def test_the_paper_divides_by_ten_at_32k_and_48k():
    paper = load_recipe("paper")
    rates = {
        i: learning_rate(paper, i, 64_000) for i in (0, 31_999, 32_000, 47_999, 48_000, 63_999)
    }
    assert list(rates.values()) == [0.1, 0.1, 0.01, 0.01, 0.001, 0.001]


def test_the_110_layer_rule_holds_0_01_until_the_net_is_warm():
    paper = load_recipe("paper")
    assert learning_rate(paper, 399, 64_000, is_warm=False) == 0.01
    assert learning_rate(paper, 400, 64_000, is_warm=True) == 0.1


def test_linear_warmup_and_decay():
    recipe = Recipe(lr=1.0, schedule="linear", warmup="linear", warmup_lr=0.0, warmup_fraction=0.2)
    assert [learning_rate(recipe, i, 10) for i in range(10)] == pytest.approx(
        [0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125]
    )


def test_cosine_starts_at_lr_and_halves_in_the_middle():
    recipe = Recipe(lr=0.2, schedule="cosine")
    assert learning_rate(recipe, 0, 100) == pytest.approx(0.2)
    assert learning_rate(recipe, 50, 100) == pytest.approx(0.1)


def test_constant_warmup_is_that_of_he_2016():
    recipe = Recipe(warmup="constant", warmup_lr=0.01, warmup_fraction=400 / 64_000)
    assert learning_rate(recipe, 399, 64_000) == 0.01
    assert learning_rate(recipe, 400, 64_000) == 0.1


@given(
    st.sampled_from(["step", "cosine", "linear", "constant"]),
    st.integers(1, 5000),
    st.floats(0, 0.5),
    st.data(),
)
def test_a_rate_is_never_negative_nor_above_lr(schedule, total, fraction, data):
    recipe = Recipe(schedule=schedule, warmup="linear", warmup_lr=0.0, warmup_fraction=fraction)
    iteration = data.draw(st.integers(0, total - 1))
    assert 0 <= learning_rate(recipe, iteration, total) <= recipe.lr + 1e-12
