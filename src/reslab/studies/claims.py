"""The five claims of the degradation study, each decided by a stated rule. No torch.

Verdicts are "holds", "does not hold", "inside the noise" and "not measured"; they are computed
from the figures and never assumed.
"""

import statistics
from collections.abc import Callable, Sequence

from reslab.records import ArmResult, Claim, DeepenedResult, LayerNorm
from reslab.studies.statistics import Difference, compare

__all__ = ["degradation_claims", "gradient_reach", "overall_verdict"]

HOLDS, FAILS, NOISE, UNMEASURED = "holds", "does not hold", "inside the noise", "not measured"
VANISHING = 0.01


def degradation_claims(
    arms: Sequence[ArmResult], deepened: Sequence[DeepenedResult], *, samples: int
) -> tuple[Claim, ...]:
    """The claims (a) to (e) from the arms; `samples` is the size of the training split."""
    figures = _Figures(arms, samples)
    return (
        _degradation(figures),
        _not_overfitting(figures),
        _not_vanishing(figures),
        _solution_exists(figures, deepened),
        _shortcuts_cure(figures),
    )


class _Figures:
    """Errors by kind and depth, in the order of seeds; the shallowest and the deepest depth."""

    def __init__(self, arms: Sequence[ArmResult], samples: int) -> None:
        self.samples = samples
        self.arms = sorted(arms, key=lambda arm: arm.seed)
        depths = sorted({arm.depth for arm in arms})
        self.shallow, self.deep = depths[0], depths[-1]

    def has(self, *kinds: str) -> bool:
        return self.shallow != self.deep and all(
            self.of(kind, depth) for kind in kinds for depth in (self.shallow, self.deep)
        )

    def of(self, kind: str, depth: int) -> list[ArmResult]:
        return [arm for arm in self.arms if (arm.kind, arm.depth) == (kind, depth)]

    def train(self, kind: str, depth: int) -> list[float]:
        return [arm.final_train_error for arm in self.of(kind, depth)]

    def test(self, kind: str, depth: int) -> list[float]:
        return [arm.final_test_error for arm in self.of(kind, depth)]

    def by_depth(self, kind: str) -> Difference:
        return compare(
            self.train(kind, self.shallow), self.train(kind, self.deep), samples=self.samples
        )


def _claim(
    key: str, title: str, statement: str, rule: str, *, found: tuple[str, str, dict[str, float]]
) -> Claim:
    verdict, evidence, figures = found
    return Claim(
        key=key,
        title=title,
        statement=statement,
        rule=rule,
        verdict=verdict,
        evidence=evidence,
        figures=figures,
    )


def _missing(what: str) -> tuple[str, str, dict[str, float]]:
    return UNMEASURED, f"This needs {what}.", {}


def _sign(difference: Difference) -> str:
    return HOLDS if difference.is_above else FAILS if difference.is_below else NOISE


def _degradation(f: _Figures) -> Claim:
    found = _missing("plain arms of two depths")
    if f.has("plain"):
        difference = f.by_depth("plain")
        shallow, deep = _means(f.train, "plain", f)
        found = (
            _sign(difference),
            f"Training error of plain-{f.shallow} is {shallow:.2f} %, of plain-{f.deep} "
            f"{deep:.2f} %: {difference}.",
            {"shallow": shallow, "deep": deep, "difference": difference.mean},
        )
    return _claim(
        "a",
        "Degradation",
        f"The plain net of {f.deep} layers has a higher training error than the one of {f.shallow}.",
        "Holds when the 95 % interval of the paired difference lies above zero; does not hold when "
        "it lies below; else inside the noise. With one seed the interval is that of counting "
        "mistakes alone, for this seed.",
        found=found,
    )


def _means(
    errors: Callable[[str, int], list[float]], kind: str, f: _Figures
) -> tuple[float, float]:
    return statistics.fmean(errors(kind, f.shallow)), statistics.fmean(errors(kind, f.deep))


def _not_overfitting(f: _Figures) -> Claim:
    found = _missing("plain arms of two depths")
    if f.has("plain"):
        train, (test_shallow, test_deep) = f.by_depth("plain"), _means(f.test, "plain", f)
        train_shallow, train_deep = _means(f.train, "plain", f)
        gaps = test_shallow - train_shallow, test_deep - train_deep
        found = (
            _sign(train),
            f"From {f.shallow} to {f.deep} layers the test error goes from {test_shallow:.2f} to "
            f"{test_deep:.2f} % and the training error from {train_shallow:.2f} to {train_deep:.2f} %; "
            f"the gap between test and training goes from {gaps[0]:.2f} to {gaps[1]:.2f} points.",
            {"gap_shallow": gaps[0], "gap_deep": gaps[1], "train_difference": train.mean},
        )
    return _claim(
        "b",
        "Not over-fitting",
        "The deeper plain net is worse on the images it was trained on; over-fitting would make it "
        "better there.",
        "Holds when the training error of the deeper plain net is higher beyond the noise; does not "
        "hold when it is lower; else inside the noise.",
        found=found,
    )


def gradient_reach(norms: Sequence[LayerNorm]) -> float:
    """Gradient norm in the first quarter of the layers over that in the last, geometric means.

    Below one the gradient shrinks on its way from the loss; the classifier is left out. Zero when a
    layer has no gradient at all.
    """
    values = [layer.norm for layer in norms[:-1]]
    quarter = max(1, len(values) // 4)
    first, last = values[:quarter], values[-quarter:]
    if not values or min(first) <= 0 or min(last) <= 0:
        return 0.0
    return statistics.geometric_mean(first) / statistics.geometric_mean(last)


def _not_vanishing(f: _Figures) -> Claim:
    found = _missing(f"a plain arm of {f.deep} layers with gradients")
    arms = [a for a in f.of("plain", f.deep) if a.gradients_start and a.gradients_end]
    if arms:
        start = [gradient_reach(arm.gradients_start) for arm in arms]
        end = [gradient_reach(arm.gradients_end) for arm in arms]
        lowest = min(*start, *end)
        found = (
            HOLDS if lowest >= VANISHING else FAILS,
            f"In plain-{f.deep} the gradient norm of the first quarter of the layers is "
            f"{_range(start)} times that of the last quarter before training and {_range(end)} "
            f"times after it.{_growth(start)}",
            {"start": statistics.fmean(start), "end": statistics.fmean(end), "lowest": lowest},
        )
    return _claim(
        "c",
        "Not vanishing gradients",
        f"The gradient reaches the first layers of the plain net of {f.deep} layers.",
        f"Holds when, for every seed and at both times, the norm in the first quarter of the layers "
        f"is at least {VANISHING:g} of that in the last quarter; else does not hold.",
        found=found,
    )


def _growth(start: Sequence[float]) -> str:
    grows = statistics.geometric_mean(start) > 1 / VANISHING if min(start) > 0 else False
    return " Before training it grows towards the input: far from vanishing." if grows else ""


def _range(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.3g}" if f"{low:.3g}" == f"{high:.3g}" else f"{low:.3g} to {high:.3g}"


def _solution_exists(f: _Figures, deepened: Sequence[DeepenedResult]) -> Claim:
    found = _missing("plain arms of two depths")
    if deepened:
        same = all(abs(d.train_error_after - d.train_error_before) < 1e-9 for d in deepened)
        after = [d.train_error_after for d in deepened]
        trained = [d.trained_error for d in deepened]
        difference = compare(after, trained, samples=f.samples)
        change = max(d.largest_logit_change for d in deepened)
        found = (
            _sign(difference) if same else FAILS,
            f"Trained plain-{f.shallow} with identity layers up to {f.deep}: training error "
            f"{statistics.fmean(after):.2f} % ({'unchanged' if same else 'changed'}; largest change "
            f"of a logit {change:.1g}). Trained from scratch, plain-{f.deep} reaches "
            f"{statistics.fmean(trained):.2f} %: {difference}.",
            {
                "constructed": statistics.fmean(after),
                "trained": statistics.fmean(trained),
                "difference": difference.mean,
                "largest_logit_change": change,
            },
        )
    return _claim(
        "d",
        "A good deep solution exists",
        f"A plain net of {f.deep} layers with the training error of the one of {f.shallow} exists by "
        "construction, and training from scratch does not find one as good.",
        "Holds when inserting identity layers leaves the training error as it was and training from "
        "scratch ends above it beyond the noise; does not hold when insertion changes the error or "
        "training ends below it; else inside the noise.",
        found=found,
    )


def _shortcuts_cure(f: _Figures) -> Claim:
    found = _missing("plain and residual arms of two depths")
    if f.has("plain", "resnet"):
        depth = f.by_depth("resnet")
        cure = compare(f.train("resnet", f.deep), f.train("plain", f.deep), samples=f.samples)
        shallow, deep = _means(f.train, "resnet", f)
        verdict = _sign(cure) if not depth.is_above else FAILS
        found = (
            verdict,
            f"Training error of resnet-{f.shallow} is {shallow:.2f} %, of resnet-{f.deep} "
            f"{deep:.2f} %: {depth}. At {f.deep} layers the plain net is worse than the residual "
            f"one by {cure}.",
            {"shallow": shallow, "deep": deep, "difference": depth.mean, "cure": cure.mean},
        )
    return _claim(
        "e",
        "Shortcuts cure it",
        f"With shortcuts, {f.deep} layers train no worse than {f.shallow}, and better than without.",
        "Holds when the deeper residual net's training error is not above the shallower one's beyond "
        "the noise and the plain net of that depth is above it beyond the noise; does not hold when "
        "the deeper residual net is above beyond the noise or the plain one below; else inside the "
        "noise.",
        found=found,
    )


def overall_verdict(claims: Sequence[Claim], arms: Sequence[ArmResult], *, data: str) -> str:
    """One or two sentences: what was seen, on what."""
    by_key = {claim.key: claim for claim in claims}
    degradation, cure = by_key["a"], by_key["e"]
    sentences = [_degradation_sentence(degradation, arms, data)]
    if cure.verdict != UNMEASURED:
        words = {
            HOLDS: "With shortcuts, depth no longer hurts",
            FAILS: _partly(cure),
            NOISE: "Whether shortcuts help lies inside the noise here",
        }
        deep, shallow = cure.figures["deep"], cure.figures["shallow"]
        sentences.append(
            f"{words[cure.verdict]}: {deep:.2f} % against {shallow:.2f} % training error."
        )
    others = [c for c in claims if c.key in "bcd" and c.verdict in (FAILS, NOISE)]
    sentences += [f"{claim.title}: {claim.verdict}." for claim in others]
    return " ".join(sentences)


def _partly(cure: Claim) -> str:
    gain = cure.figures.get("cure", 0.0)
    if gain <= 0:
        return "Shortcuts do not cure it here"
    return f"Shortcuts help by {gain:.2f} points at equal depth but do not cure it here"


def _degradation_sentence(claim: Claim, arms: Sequence[ArmResult], data: str) -> str:
    depths = sorted({arm.depth for arm in arms})
    if claim.verdict == UNMEASURED:
        return f"Degradation was not measured on {data}: it needs plain arms of two depths."
    shallow, deep = claim.figures["shallow"], claim.figures["deep"]
    words = {
        HOLDS: f"On {data}, the deeper plain net trains worse",
        FAILS: f"On {data}, the deeper plain net trains better: no degradation",
        NOISE: f"On {data}, the difference between the plain nets lies inside the noise",
    }
    return (
        f"{words[claim.verdict]}: {deep:.2f} % training error with {depths[-1]} layers, "
        f"{shallow:.2f} % with {depths[0]}."
    )
