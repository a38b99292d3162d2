"""Sequences from nets that score the next token: greedily, or by beam search.

Any net with `pad_id`, `start_decoding` and `next_logits` (the protocol `Decoder`) can be decoded; the
zoo's are the Transformer and the causal language models. Keys and values of earlier positions are
kept in the decoding state, so each step computes one position. Padding and the begin id are never
written. The net is in eval mode meanwhile, and each module has its mode back afterwards.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from reslab.errors import ModelError
from reslab.nn.transformer_block import LayerCache, Memory

__all__ = ["Decoder", "DecodingState", "beam_decode", "greedy_decode", "score_sequences"]

_BEGIN, _END = 2, 3


@dataclass(eq=False)
class DecodingState:
    """What one step of decoding leaves to the next: the encoder's memory, and keys and values.

    `caches=None` computes all positions anew in each step.
    """

    memory: Memory | None = None
    caches: list[LayerCache] | None = None

    def repeat(self, times: int) -> None:
        """Each sample `times` over, before the first step."""
        if self.memory is not None:
            states, mask = self.memory
            mask = None if mask is None else mask.repeat_interleave(times, 0)
            self.memory = Memory(states.repeat_interleave(times, 0), mask)

    def reorder(self, rows: Tensor) -> None:
        """Row i goes on as row rows[i], one of the same source: so the memory may stay as it is."""
        for cache in self.caches or ():
            cache.own.reorder(rows)


class Decoder(Protocol):
    """A net that can be decoded."""

    pad_id: int

    def start_decoding(self, source: Tensor, *, begin: int) -> tuple[Tensor, DecodingState]:
        """The ids that decoding goes on from, [N, T], and the state before any of them is read."""
        ...

    def next_logits(self, ids: Tensor, state: DecodingState) -> Tensor:
        """Scores after each position that the state does not hold yet, [N, new, vocab_size]."""
        ...


def greedy_decode(
    net: nn.Module, source: Tensor, *, begin: int = _BEGIN, end: int = _END, max_length: int = 256
) -> Tensor:
    """The likeliest token each time: ids [N, T] after `begin`, with `end`, then padding.

    `source` [N, S] is what an encoder reads, or the prompt that a language model goes on from
    (prompts of one length, no padding). T is at most `max_length`, the most tokens written.

    >>> import reslab
    >>> net = reslab.create_model("transformer-tiny")
    >>> greedy_decode(net, torch.tensor([[7, 8, 9]]), max_length=5).shape[0]
    1
    """
    decoder = _decoder(net, max_length)
    with _evaluating(net):
        ids, state = decoder.start_decoding(source, begin=begin)
        start, ended = ids.shape[1], torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
        for _ in range(max_length):
            scores = _log_probabilities(decoder, ids, state, begin)
            token = scores.argmax(1).masked_fill(ended, decoder.pad_id)
            ids, ended = torch.cat((ids, token[:, None]), 1), ended | (token == end)
            if ended.all():
                break
    return ids[:, start:]


@dataclass(frozen=True, eq=False)
class _Beams:
    """Hypotheses [N, beams]: log-probabilities, tokens written, whether `end` was."""

    log_probability: Tensor
    length: Tensor
    ended: Tensor

    def scores(self, length_penalty: float) -> Tensor:
        return self.log_probability / _penalty(self.length, length_penalty)

    def settled(self, length_penalty: float, max_length: int) -> bool:
        """Whether in every sample no hypothesis that is still open can beat the best ended one.

        Log-probabilities fall with every token, so that an open one ends with at most its present
        one over the largest penalty.
        """
        done = self.scores(length_penalty).masked_fill(~self.ended, -torch.inf)
        longest = torch.full_like(self.length, max_length)
        bound = self.log_probability / _penalty(longest, length_penalty)
        bound = bound.masked_fill(self.ended, -torch.inf)
        return bool((done.amax(1) >= bound.amax(1)).all())


def beam_decode(
    net: nn.Module,
    source: Tensor,
    *,
    beams: int = 4,
    length_penalty: float = 0.6,
    begin: int = _BEGIN,
    end: int = _END,
    max_length: int = 256,
) -> Tensor:
    """The best sequence that a beam search finds: ids [N, T], as `greedy_decode` gives them.

    Hypotheses, ended ones among them, are ranked by log P(y) / ((5 + |y|) / 6)^length_penalty (Wu
    2016, arXiv 1609.08144, section 7; beam 4 and 0.6 are Vaswani 2017, section 6.1). One beam is
    greedy decoding. A hypothesis that `max_length` cuts off competes with the score it has.
    """
    if beams < 1 or length_penalty < 0:
        raise ModelError(
            "this beam search cannot be",
            got=f"beams {beams}, length_penalty {length_penalty}",
            expected="1 beam or more and a penalty of 0 or more",
        )
    decoder = _decoder(net, max_length)
    with _evaluating(net):
        ids, state = decoder.start_decoding(source, begin=begin)
        start, found = ids.shape[1], _first_beams(len(ids), beams, ids.device)
        ids = ids.repeat_interleave(beams, 0)
        state.repeat(beams)
        for _ in range(max_length):
            scores = _log_probabilities(decoder, ids, state, begin).unflatten(0, (-1, beams))
            found, parents, tokens = _step(found, scores, length_penalty, (decoder.pad_id, end))
            firsts = torch.arange(len(parents), device=ids.device)[:, None] * beams
            rows = (firsts + parents).flatten()
            ids = torch.cat((ids[rows], tokens.flatten()[:, None]), 1)
            state.reorder(rows)
            if found.settled(length_penalty, max_length):
                break
    best = found.scores(length_penalty).argmax(1, keepdim=True)
    longest = int(found.length.gather(1, best).max())
    chosen = ids.unflatten(0, (-1, beams))[torch.arange(len(best), device=ids.device), best[:, 0]]
    return chosen[:, start : start + longest]


def _first_beams(samples: int, beams: int, device: torch.device) -> _Beams:
    # All beams of a sample start alike: all but the first are impossible, or they would stay alike.
    log_probability = torch.full((samples, beams), -torch.inf, device=device)
    log_probability[:, 0] = 0
    length = torch.zeros(samples, beams, dtype=torch.long, device=device)
    return _Beams(log_probability, length, torch.zeros_like(length, dtype=torch.bool))


def _step(
    beams: _Beams, scores: Tensor, length_penalty: float, specials: tuple[int, int]
) -> tuple[_Beams, Tensor, Tensor]:
    """The best hypotheses one token on, the beams they come from, and their tokens; all [N, beams].

    `scores` [N, beams, vocab_size] are log-probabilities of the next token. An ended hypothesis goes
    on as itself, with padding for its token.
    """
    pad_id, end = specials
    stays = torch.full_like(scores[0, 0], -torch.inf)
    stays[pad_id] = 0
    scores = torch.where(beams.ended[:, :, None], stays, scores)
    totals = beams.log_probability[:, :, None] + scores
    lengths = beams.length + ~beams.ended
    ranked = totals / _penalty(lengths, length_penalty)[:, :, None]
    index = ranked.flatten(1).topk(scores.shape[1], dim=1).indices
    parents, tokens = index // scores.shape[2], index % scores.shape[2]
    found = _Beams(
        totals.flatten(1).gather(1, index),
        lengths.gather(1, parents),
        beams.ended.gather(1, parents) | (tokens == end),
    )
    return found, parents, tokens


def score_sequences(
    net: nn.Module, source: Tensor, ids: Tensor, *, begin: int = _BEGIN, length_penalty: float = 0.0
) -> Tensor:
    """[N]: log P(ids | source) over the length penalty, which 0 leaves out; padding does not count.

    `ids` [N, T] are as the decoders give them.
    """
    decoder = _decoder(net, ids.shape[1])
    with _evaluating(net):
        first, state = decoder.start_decoding(source, begin=begin)
        read = torch.cat((first, ids[:, :-1]), 1)
        logits = decoder.next_logits(read, state)[:, first.shape[1] - 1 :]
    each = logits.float().log_softmax(2).gather(2, ids[:, :, None])[:, :, 0]
    counts = ids != decoder.pad_id
    total = each.masked_fill(~counts, 0).sum(1)
    return total / _penalty(counts.sum(1), length_penalty)


def _penalty(length: Tensor, exponent: float) -> Tensor:
    return ((5 + length) / 6) ** exponent


def _log_probabilities(decoder: Decoder, ids: Tensor, state: DecodingState, begin: int) -> Tensor:
    """[N, vocab_size] of the token after ids; padding and begin are impossible."""
    scores = decoder.next_logits(ids, state)[:, -1].float().log_softmax(1)
    never = torch.tensor([decoder.pad_id, begin], device=ids.device)
    return scores.index_fill(1, never, -torch.inf)


def _decoder(net: nn.Module, max_length: int) -> Decoder:
    if not hasattr(net, "start_decoding"):
        raise ModelError(
            f"{type(net).__name__} does not write sequences",
            hint="Decode a Transformer or a causal language model.",
        )
    if max_length < 1:
        raise ModelError("max_length is wrong", got=max_length, expected="1 or more")
    return net  # type: ignore[return-value]


@contextlib.contextmanager
def _evaluating(net: nn.Module) -> Iterator[None]:
    """Eval mode without gradients; afterwards each module has its own mode back."""
    modes = [(module, module.training) for module in net.modules()]
    try:
        net.eval()
        with torch.no_grad():
            yield
    finally:
        for module, was_training in modes:
            module.training = was_training
