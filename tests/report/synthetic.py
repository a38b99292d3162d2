"""Made-up study results: small, plausible to look at, and obviously not measured."""

from dataclasses import replace
from typing import Any

from reslab.records import (
    ArmResult,
    Claim,
    CurvePoint,
    DeepenedResult,
    LayerNorm,
    StudyResult,
)

ENDS = {"plain-20": 0.3, "plain-56": 70.0, "resnet-20": 0.0, "resnet-56": 0.0}
STEPS = tuple(range(20, 161, 20))


def arm(name: str, *, seed: int = 0, end: float | None = None, points: int = 8) -> ArmResult:
    """One training whose error falls from 90 % towards `end` (default: that of ENDS)."""
    kind, _, depth = name.partition("-")
    last = (ENDS.get(name, 5.0) if end is None else end) * (1 + 0.1 * seed)
    layers = 3
    return ArmResult(
        name=name,
        model=f"{kind}{depth}",
        kind=kind,
        depth=int(depth),
        seed=seed,
        parameters={20: 269_434, 56: 852_730}.get(int(depth), 19_421_274),
        final_train_error=last,
        final_train_loss=last / 30,
        final_test_error=last + 2.0,
        curve=tuple(_point(step, last, seed) for step in STEPS[:points]),
        gradients_start=_norms(layers, 1.0 + seed),
        gradients_end=_norms(layers, 0.1),
        seconds=10.0 + seed,
        folder=f"{name}-seed{seed}",
    )


def _point(step: int, last: float, seed: int) -> CurvePoint:
    left = (1 - step / 160) ** (2.0 + 0.3 * seed)
    error = last + (90.0 - last) * left
    return CurvePoint(
        iteration=step,
        train_error=error,
        train_loss=error / 40,
        test_error=min(100.0, error + 2.0),
        lr=0.05,
    )


def _norms(layers: int, scale: float) -> tuple[LayerNorm, ...]:
    return tuple(
        LayerNorm(layer=f"layer{i}", norm=scale * 2.0**-i, relative=scale * 0.1)
        for i in range(layers)
    )


def claim(key: str, verdict: str, **changes: Any) -> Claim:
    """A claim with this verdict; every word of it says which."""
    made = Claim(
        key=key,
        title=f"Claim {key}",
        statement=f"Statement of {key}.",
        rule=f"Rule of {key}.",
        verdict=verdict,
        evidence=f"Evidence of {key}.",
        figures={"mean_difference": 69.7, "tiny": 0.0000012},
    )
    return replace(made, **changes)


def deepened(seed: int = 0) -> DeepenedResult:
    """plain-20 put up to 56 layers."""
    return DeepenedResult(
        source="plain-20",
        seed=seed,
        depth_before=20,
        depth_after=56,
        train_error_before=0.3,
        train_error_after=0.3,
        trained_error=70.0 + seed,
        largest_logit_change=1.2e-6,
    )


def study(*, names: tuple[str, ...] = tuple(ENDS), seeds: int = 1, **changes: Any) -> StudyResult:
    """A whole result: four arms, four claims (one of each verdict), deepened nets."""
    verdicts = ("holds", "does not hold", "inside the noise", "not measured")
    made = StudyResult(
        study="degradation",
        title="Do deeper nets train worse?",
        hypothesis="Deeper plain nets have a higher training error.",
        protocol="Everything equal but depth and shortcuts.",
        paper="He et al. 2015, section 4.2.",
        verdict="On digits, the deeper plain net trains worse: 70.00 % against 0.30 %. Cured.",
        data="digits",
        command="reslab study degradation --seeds 3",
        created="2026-12-01 12:00 UTC",
        arms=tuple(arm(name, seed=seed) for seed in range(seeds) for name in names),
        claims=tuple(claim(key, verdict) for key, verdict in zip("abcd", verdicts, strict=True)),
        deepened=tuple(deepened(seed) for seed in range(seeds)),
        recipe={"name": "quick", "lr": 0.05, "milestones": [0.5, 0.75], "epochs": None},
        environment={"reslab": "0.1.0", "python": "3.11.7", "threads": 2},
        seconds=61.0,
    )
    return replace(made, **changes)
