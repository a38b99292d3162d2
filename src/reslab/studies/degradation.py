"""The degradation study: deeper plain nets train worse, and shortcuts cure it (He 2015, sec. 4).

    reslab study degradation                  # embedded digits, about a minute
    reslab study degradation --data cifar10   # the paper's data

The argument has five steps, each a claim with a rule that decides it from the measured figures.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reslab.data import build_eval_loader
from reslab.errors import ModelError, UsageError
from reslab.models.cifar_resnet import cifar_model, stage_depth
from reslab.models.convnet import ConvNet
from reslab.recipe import Recipe
from reslab.records import ArmResult, DeepenedResult, StudyResult
from reslab.registry import close_names
from reslab.studies.arms import Arm, ArmProgress, run_arms
from reslab.studies.claims import degradation_claims, overall_verdict
from reslab.surgery.deepen import deepen
from reslab.train.environment import describe_environment
from reslab.train.evaluate import evaluate_batches, evaluation_mode
from reslab.train.fit import data_of
from reslab.train.precision import choose_device
from reslab.train.session import eval_batch_size, preprocessing_of, with_holdout
from reslab.train.trained import load_trained

__all__ = ["DegradationStudy", "run_degradation"]

KINDS = ("plain", "resnet")

HYPOTHESIS = (
    "When a plain net gets deeper, its training error rises (degradation). This is not over-fitting, "
    "since the training error itself is worse; not vanishing gradients, since the gradient reaches "
    "the first layers; and not a lack of capacity, since a deeper net with the shallower one's "
    "function exists. Identity shortcuts cure it."
)
PAPER = (
    "He et al. 2015 (arXiv 1512.03385), section 4.2 and fig. 6, CIFAR-10: plain nets of 20, 32, 44 "
    "and 56 layers have a higher training error the deeper they are, and plain-110 stays above 60 % "
    "error. With option-A shortcuts depth helps: test errors of 8.75, 7.51, 7.17, 6.97 and 6.43 % "
    "at 20, 32, 44, 56 and 110 layers (table 6). The claim that a deeper solution exists by "
    "construction is from section 1; healthy gradient norms in plain nets are reported for ImageNet "
    "(section 4.1)."
)


@dataclass(frozen=True, kw_only=True)
class DegradationStudy:
    """What is compared: kinds x depths x seeds, everything else equal."""

    recipe: Recipe
    out: Path
    kinds: tuple[str, ...] = KINDS
    depths: tuple[int, ...] = (20, 56)
    seeds: int = 3
    jobs: int = 1
    command: str = "reslab study degradation"
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in KINDS:
                raise UsageError(f"unknown arm {kind!r}", hint=close_names(kind, list(KINDS)))
        for depth in self.depths:
            stage_depth(depth)
        if "shortcut" in self.recipe.model_options:
            raise UsageError(
                "the arms of this study choose their shortcuts",
                got=self.recipe.model_options,
                hint="Take shortcut out of the recipe's model_options.",
            )
        for name in ("kinds", "depths"):
            values = getattr(self, name)
            if not values or len(set(values)) != len(values):
                raise UsageError(f"{name} are wrong", got=values, expected="different values")
        for name in ("seeds", "jobs"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is wrong", got=getattr(self, name), expected="1 or more")

    def arms(self) -> list[Arm]:
        """Every training of the study: same order of samples and budget for the same seed."""
        return [
            self._arm(kind, depth, self.recipe.seed + number)
            for number in range(self.seeds)
            for kind in self.kinds
            for depth in self.depths
        ]

    def _arm(self, kind: str, depth: int, seed: int) -> Arm:
        model, options = cifar_model(kind, depth)
        options = self.recipe.model_options | options
        return Arm(
            name=f"{kind}-{depth}",
            kind=kind,
            depth=depth,
            recipe=self.recipe.updated({"model": model, "model_options": options, "seed": seed}),
            folder=self.out / "arms" / f"{kind}-{depth}-seed{seed}",
        )


def run_degradation(
    study: DegradationStudy, *, on_progress: Callable[[ArmProgress], None] = lambda _: None
) -> StudyResult:
    """Train the arms, deepen the trained shallow plain nets, and judge the five claims."""
    start = time.perf_counter()
    arms = run_arms(study.arms(), jobs=study.jobs, on_progress=on_progress)
    # The hold-out is drawn by each seed; its size is the same for all.
    data = with_holdout(data_of(study.recipe), study.recipe)
    deepened = _deepen_arms(study, arms)
    claims = degradation_claims(arms, deepened, samples=len(data.train))
    return StudyResult(
        study="degradation",
        title="Do deeper nets train worse?",
        hypothesis=HYPOTHESIS,
        protocol=_protocol(study, arms, len(data.train), len(data.test)),
        paper=PAPER,
        verdict=overall_verdict(claims, arms, data=study.recipe.data),
        data=study.recipe.data,
        command=study.command,
        created=time.strftime("%Y-%m-%d %H:%M %Z"),
        arms=tuple(arms),
        claims=claims,
        deepened=deepened,
        recipe=study.recipe.to_dict(),
        environment=describe_environment(choose_device(study.recipe.device)),
        seconds=round(time.perf_counter() - start, 1),
    )


def _deepen_arms(study: DegradationStudy, arms: Sequence[ArmResult]) -> tuple[DeepenedResult, ...]:
    plain = {(a.depth, a.seed): a for a in arms if a.kind == "plain"}
    shallow, deep = min(study.depths), max(study.depths)
    if "plain" not in study.kinds or shallow == deep:
        return ()
    return tuple(
        _deepen_arm(study, arm, plain[deep, arm.seed])
        for (depth, _), arm in plain.items()
        if depth == shallow
    )


def _deepen_arm(study: DegradationStudy, shallow: ArmResult, deep: ArmResult) -> DeepenedResult:
    recipe = study.recipe.updated({"seed": shallow.seed})
    data = with_holdout(data_of(recipe), recipe)
    net = load_trained(study.out / "arms" / shallow.folder / "weights.safetensors").model
    if not isinstance(net, ConvNet):
        raise ModelError("only reslab's plain nets can be deepened", got=type(net).__name__)
    deeper = deepen(net, (stage_depth(deep.depth),) * 3)
    loader = build_eval_loader(
        data.train,
        preprocessing=preprocessing_of(data, recipe),
        batch_size=eval_batch_size(data),
    )
    views = next(iter(loader)).views[0]
    with evaluation_mode(net), evaluation_mode(deeper):
        change = float((net(views) - deeper(views)).abs().max())
    return DeepenedResult(
        source=shallow.name,
        seed=shallow.seed,
        depth_before=shallow.depth,
        depth_after=deeper.spec.depth,
        # Both measured here, on one device: kernels of another could call a sample differently.
        train_error_before=evaluate_batches(net, loader).top1_error,
        train_error_after=evaluate_batches(deeper, loader).top1_error,
        trained_error=deep.final_train_error,
        largest_logit_change=change,
    )


def _protocol(study: DegradationStudy, arms: Sequence[ArmResult], train: int, test: int) -> str:
    recipe = study.recipe
    length = f"{recipe.iterations} iterations" if recipe.iterations else f"{recipe.epochs} epochs"
    counts = {a.depth: a.parameters for a in arms}
    sizes = ", ".join(f"{depth} layers {count:,}" for depth, count in sorted(counts.items()))
    seconds = statistics.fmean(a.seconds for a in arms)
    return (
        f"Plain and residual CIFAR nets (He 2015, section 4.2; option A, so both kinds have the same "
        f"parameters: {sizes}) trained on {train:,} images of {recipe.data} and tested on {test:,}. "
        f"Every arm has the same budget ({length}, batch {recipe.batch_size}), and for the same "
        f"seed the same order of samples; {study.seeds} seed(s) an arm from {recipe.seed} up. "
        f"Training errors are measured in evaluation mode on the training images as they are; "
        f"curves show the running error of the mini-batches. {seconds:.0f} s an arm on average."
    )
