"""Verdicts follow from figures by the stated rules, also when they disagree with the paper."""

import math

import pytest
from scipy import stats

from reslab.records import ArmResult, DeepenedResult, LayerNorm
from reslab.studies.claims import degradation_claims, gradient_reach, overall_verdict
from reslab.studies.statistics import compare

HEALTHY = tuple(LayerNorm(layer=str(i), norm=1.0, relative=1.0) for i in range(9))


def arm(kind, depth, seed, train, test=None, norms=HEALTHY):
    return ArmResult(
        name=f"{kind}-{depth}",
        model=f"{kind}{depth}",
        kind=kind,
        depth=depth,
        seed=seed,
        parameters=1,
        final_train_error=train,
        final_train_loss=1.0,
        final_test_error=train + 1 if test is None else test,
        gradients_start=norms,
        gradients_end=norms,
    )


def arms(plain20, plain56, resnet20, resnet56):
    groups = {("plain", 20): plain20, ("plain", 56): plain56}
    groups |= {("resnet", 20): resnet20, ("resnet", 56): resnet56}
    return [arm(k, d, s, e) for (k, d), errors in groups.items() for s, e in enumerate(errors)]


def deepened(before, after, trained):
    return DeepenedResult(
        source="plain-20",
        seed=0,
        depth_before=20,
        depth_after=56,
        train_error_before=before,
        train_error_after=after,
        trained_error=trained,
        largest_logit_change=0.0,
    )


def verdicts(results, inserted=()):
    claims = degradation_claims(results, inserted, samples=1000)
    return {claim.key: claim.verdict for claim in claims}


def test_the_papers_finding_holds_on_every_claim():
    results = arms([1, 2, 1.5], [60, 70, 65], [1, 1, 1], [0.5, 1, 1])
    inserted = [deepened(1, 1, 60), deepened(2, 2, 70), deepened(1.5, 1.5, 65)]
    assert set(verdicts(results, inserted).values()) == {"holds"}


def test_data_on_which_it_does_not_hold_says_so():
    results = arms([10, 11, 10], [1, 1, 2], [1, 1, 1], [20, 21, 22])
    found = verdicts(results, [deepened(10, 10, 1), deepened(11, 11, 1), deepened(10, 10, 2)])
    assert found == {
        "a": "does not hold",
        "b": "does not hold",
        "c": "holds",
        "d": "does not hold",
        "e": "does not hold",
    }
    claims = degradation_claims(results, [], samples=1000)
    assert "no degradation" in overall_verdict(claims, results, data="toy")
    assert "not cure it here" in overall_verdict(claims, results, data="toy")


def test_a_swing_between_seeds_is_not_a_finding():
    assert verdicts(arms([1, 9, 2], [8, 2, 9], [1, 1, 1], [1, 1, 1]))["a"] == "inside the noise"


def test_one_seed_is_judged_by_counting_noise_and_says_so():
    results = arms([50], [52], [1], [1])
    assert verdicts(results)["a"] == "inside the noise"
    results = arms([5], [52], [1], [1])
    claims = degradation_claims(results, [], samples=1000)
    assert claims[0].verdict == "holds" and "one seed" in claims[0].evidence


def test_missing_arms_are_not_measured():
    found = verdicts([arm("plain", 20, 0, 1.0), arm("plain", 56, 0, 50.0)])
    assert (found["a"], found["d"], found["e"]) == ("holds", "not measured", "not measured")
    assert set(verdicts([arm("resnet", 20, 0, 1.0)]).values()) == {"not measured"}


def test_an_insertion_that_changes_the_error_does_not_hold():
    results = arms([1, 1], [60, 61], [1, 1], [1, 1])
    found = verdicts(results, [deepened(1, 1.2, 60), deepened(1, 1, 61)])
    assert found["d"] == "does not hold"


def test_vanishing_gradients_are_told_from_healthy_ones():
    dying = tuple(LayerNorm(layer=str(i), norm=10.0**i, relative=1.0) for i in range(-8, 1))
    results = [arm("plain", d, 0, 50.0, norms=dying) for d in (20, 56)]
    assert verdicts(results)["c"] == "does not hold"
    assert gradient_reach(dying) == pytest.approx(10.0**-6)
    assert gradient_reach(HEALTHY) == 1.0
    assert gradient_reach(tuple(LayerNorm(layer="a", norm=0.0, relative=0.0) for _ in "abc")) == 0


def test_the_interval_is_students_t_of_paired_differences():
    a, b = [1.0, 2.0, 4.0], [30.0, 41.0, 35.0]
    low, high = stats.t.interval(0.95, 2, loc=33.0, scale=stats.sem([29.0, 39.0, 31.0]))
    found = compare(a, b, samples=10**9)
    assert (found.mean, found.low, found.high) == pytest.approx((33.0, low, high))


def test_equal_seeds_still_have_the_noise_of_counting():
    found = compare([10.0, 10.0], [12.0, 12.0], samples=100)
    expected = 100 * math.sqrt((0.1 * 0.9 + 0.12 * 0.88) / 100 / 2) * stats.norm.ppf(0.975)
    assert found.high - found.mean == pytest.approx(expected)
    assert not found.is_above and not found.is_below
