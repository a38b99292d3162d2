"""The learning rate as a function of the iteration, nothing else. No torch."""

import math

from reslab.recipe import Recipe

__all__ = ["learning_rate", "warmup_iterations"]


def learning_rate(recipe: Recipe, iteration: int, total: int, *, is_warm: bool = True) -> float:
    """The learning rate of step `iteration` (from 0) of `total`.

    `is_warm` is False while a recipe with warmup=until_error still waits for its training error
    (He 2015, section 4.2).

    >>> [learning_rate(Recipe(), i, 100) for i in (0, 49, 50, 75)]
    [0.1, 0.1, 0.01, 0.001]
    """
    if recipe.warmup == "until_error" and not is_warm:
        return min(recipe.warmup_lr, _scheduled(recipe, iteration, total))
    warmup = warmup_iterations(recipe, total)
    if iteration < warmup:
        if recipe.warmup == "constant":
            return recipe.warmup_lr
        return recipe.warmup_lr + (recipe.lr - recipe.warmup_lr) * (iteration + 1) / warmup
    return _scheduled(recipe, iteration, total)


def _scheduled(recipe: Recipe, iteration: int, total: int) -> float:
    warmup = warmup_iterations(recipe, total)
    if recipe.schedule == "step":
        passed = sum(iteration >= round(m * total) for m in recipe.milestones)
        return round(recipe.lr * recipe.lr_factor**passed, 12)
    if recipe.schedule == "inverse_sqrt":
        # With a linear warm-up from 0 this is the schedule of Vaswani 2017, section 5.3 ("Noam"):
        # lr there = lr here * warmup**0.5 * step**-0.5.
        return recipe.lr * (max(1, warmup) / max(1, warmup, iteration + 1)) ** 0.5
    progress = (iteration - warmup) / max(1, total - warmup)
    if recipe.schedule == "cosine":
        return recipe.lr * 0.5 * (1 + math.cos(math.pi * progress))
    return recipe.lr * (1 - progress) if recipe.schedule == "linear" else recipe.lr


def warmup_iterations(recipe: Recipe, total: int) -> int:
    """Length of a linear or constant warm-up."""
    is_timed = recipe.warmup in ("linear", "constant")
    return round(recipe.warmup_fraction * total) if is_timed else 0
