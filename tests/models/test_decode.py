"""Decoding writes the likeliest sequences, with the cache as without, and leaves the net as it was."""

import itertools

import pytest
import torch
from torch import nn

from reslab.errors import ModelError
from reslab.models.catalog import create_model
from reslab.models.decode import beam_decode, greedy_decode, score_sequences

SMALL = {
    "vocab_size": 12,
    "max_length": 16,
    "layers": 2,
    "width": 32,
    "heads": 4,
    "feed_forward": 64,
    "dropout": 0.1,
}
BEGIN, END = 2, 3


def build(family="transformer", **options):
    torch.manual_seed(0)
    net = create_model(family, **(SMALL | options))
    with torch.no_grad():
        for parameter in net.parameters():  # so that nets differ in what they find likely
            parameter.mul_(1.5)
    return net


def sources(count=6):
    torch.manual_seed(1)
    ids = torch.randint(5, 12, (count, 7))
    ids[0, 4:] = 0
    ids[-1] = 0  # nothing but padding
    return ids


class Uncached(nn.Module):
    """The same net, which computes all positions anew in each step, and keeps what it scored."""

    def __init__(self, net, cached=False):
        super().__init__()
        self.net, self.pad_id, self.cached, self.logits = net, net.pad_id, cached, []

    def start_decoding(self, source, *, begin):
        ids, state = self.net.start_decoding(source, begin=begin)
        if not self.cached:
            state.caches = None
        return ids, state

    def next_logits(self, ids, state):
        scores = self.net.next_logits(ids, state)
        self.logits.append(scores[:, -1])
        return scores


@pytest.mark.parametrize("norm", ["post", "pre", "deep"])
@pytest.mark.parametrize("family", ["transformer", "transformer_lm"])
@pytest.mark.parametrize("decode", [greedy_decode, beam_decode])
def test_the_cache_changes_nothing(family, norm, decode):
    net, given = build(family, norm=norm), sources()[1:-1]
    twins = [Uncached(net, cached=cached) for cached in (True, False)]
    found = [decode(twin, given, max_length=8) for twin in twins]
    assert torch.equal(*found)
    steps = [torch.stack(twin.logits) for twin in twins]
    assert len(steps[0]) > 1 and torch.allclose(*steps, atol=1e-5)


def test_padded_sources_are_decoded_as_alone():
    net, given = build(), sources()
    together = greedy_decode(net, given, max_length=8)
    alone = greedy_decode(net, given[:1, :4], max_length=8)
    assert torch.equal(together[0, : alone.shape[1]], alone[0])
    assert not together[0, alone.shape[1] :].any()


@pytest.mark.parametrize("family", ["transformer", "transformer_lm"])
@pytest.mark.parametrize("length_penalty", [0.0, 0.6])
def test_one_beam_is_greedy(family, length_penalty):
    net, given = build(family), sources(12)[1:-1]
    one = beam_decode(net, given, beams=1, length_penalty=length_penalty, max_length=10)
    assert torch.equal(one, greedy_decode(net, given, max_length=10))


def test_greedy_takes_the_likeliest_token_each_time():
    net, given = build().eval(), sources()[1:2]
    found = greedy_decode(net, given, max_length=6)
    ids = torch.tensor([[BEGIN]])
    for token in found[0]:
        scores = net(given, ids)[0, -1]
        scores[[0, BEGIN]] = -torch.inf
        assert token == scores.argmax()
        ids = torch.cat((ids, token.view(1, 1)), 1)
    assert found.shape[1] == 6 or found[0, -1] == END


def test_beams_score_at_least_as_well_as_greedy():
    net, given = build(), sources(40)[1:-1]
    beams = score_sequences(net, given, beam_decode(net, given, max_length=8), length_penalty=0.6)
    greedy = greedy_decode(net, given, max_length=8)
    greedy = score_sequences(net, given, greedy, length_penalty=0.6)
    assert (beams >= greedy - 1e-5).all()
    assert (beams > greedy + 1e-3).any()


def every_sequence(length, tokens=(1, *range(3, 12))):
    """All that can be written in `length` tokens: those that end, and those that are cut off."""
    others = [t for t in tokens if t != END]
    for size in range(length):
        for begun in itertools.product(others, repeat=size):
            yield (*begun, END, *[0] * (length - size - 1))
    yield from itertools.product(others, repeat=length)


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 2.0])
def test_beams_without_end_find_the_best_of_all_sequences(length_penalty):
    net, given = build(), sources()[1:3]
    all_of_them = torch.tensor(list(every_sequence(3)))
    for source in given:
        repeated = source.expand(len(all_of_them), -1)
        scores = score_sequences(net, repeated, all_of_them, length_penalty=length_penalty)
        best = all_of_them[scores.argmax()]
        found = beam_decode(
            net, source[None], beams=1000, length_penalty=length_penalty, max_length=3
        )[0]
        assert torch.equal(found, best[: len(found)]) and not best[len(found) :].any()


def test_scores_are_the_sums_of_log_probabilities_over_the_penalty():
    net, given = build().eval(), sources()[1:2]
    ids = torch.tensor([[7, 8, END, 0]])
    steps = net(given, torch.tensor([[BEGIN, 7, 8]]))[0].log_softmax(1)
    total = steps[0, 7] + steps[1, 8] + steps[2, END]
    assert torch.allclose(score_sequences(net, given, ids), total)
    penalised = score_sequences(net, given, ids, length_penalty=0.6)
    assert torch.allclose(penalised, total / (8 / 6) ** 0.6)


def test_after_the_end_comes_padding_and_never_begin():
    net, given = build(), sources(40)[:-1]
    for found in (greedy_decode(net, given, max_length=9), beam_decode(net, given, max_length=9)):
        assert not (found == BEGIN).any() and found.shape[1] <= 9
        ended = (found == END).cumsum(1) - (found == END).long() > 0
        assert (found[ended] == 0).all() and (found[~ended] != 0).all()
        assert ended.any()


def test_each_module_has_its_mode_back_and_nothing_has_gradients():
    net = build().train()
    net.encoder.eval()
    modes = [m.training for m in net.modules()]
    found = greedy_decode(net, sources(), max_length=4)
    assert [m.training for m in net.modules()] == modes and len(set(modes)) == 2
    assert torch.equal(found, greedy_decode(net.eval(), sources(), max_length=4))
    net.train()
    with pytest.raises(IndexError):
        beam_decode(net, torch.tensor([[99]]))
    assert all(m.training for m in net.modules())


def test_decoding_works_under_bf16_autocast():
    net = build()
    with torch.autocast("cpu", torch.bfloat16):
        assert beam_decode(net, sources(), max_length=4).shape[0] == 6


@pytest.mark.parametrize(
    ("family", "options", "arguments", "message"),
    [
        ("transformer", {}, {"beams": 0}, "beams 0"),
        ("transformer", {}, {"length_penalty": -1}, "penalty of 0 or more"),
        ("transformer", {}, {"max_length": 0}, "max_length is wrong"),
        ("transformer_lm", {"causal": False}, {}, "reads both ways"),
    ],
)
def test_what_cannot_be_decoded_is_refused(family, options, arguments, message):
    with pytest.raises(ModelError, match=message):
        beam_decode(build(family, **options), sources(), **arguments)


def test_other_nets_are_refused():
    with pytest.raises(ModelError, match="Linear does not write sequences"):
        greedy_decode(nn.Linear(2, 2), sources())
