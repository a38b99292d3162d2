"""Attention equals the formula written out and torch's own module; masks and cache change no value."""

import math

import pytest
import torch
from torch import nn

from reslab.errors import ModelError
from reslab.nn.attention import KeyValueCache, MultiHeadAttention, causal_mask, padding_mask


def attention(width=8, heads=2, **options):
    torch.manual_seed(0)
    return MultiHeadAttention(width, heads, **options).eval()


def written_out(module, x, memory, mask):
    """The formula of the paper, one sample and one head at a time."""
    size = x.shape[2] // module.heads
    samples = []
    for n in range(len(x)):
        heads = []
        for h in range(module.heads):
            part = slice(h * size, (h + 1) * size)
            q = module.query(x[n])[:, part]
            k, v = module.key(memory[n])[:, part], module.value(memory[n])[:, part]
            scores = (q @ k.T / math.sqrt(size)).masked_fill(~mask[n, 0], -math.inf)
            heads.append(scores.softmax(1) @ v)
        samples.append(module.output(torch.cat(heads, 1)))
    return torch.stack(samples)


def test_attention_equals_the_formula_written_out():
    module = attention()
    x, memory = torch.randn(2, 3, 8), torch.randn(2, 5, 8)
    mask = torch.rand(2, 1, 3, 5) < 0.6
    mask[..., 0] = True
    expected = written_out(module, x, memory, mask)
    assert torch.allclose(module(x, memory, mask), expected, atol=1e-6)


def test_attention_equals_torchs_module_with_the_same_weights():
    module = attention(16, 4)
    theirs = nn.MultiheadAttention(16, 4, batch_first=True).eval()
    with torch.no_grad():
        parts = (module.query, module.key, module.value)
        theirs.in_proj_weight.copy_(torch.cat([p.weight for p in parts]))
        theirs.in_proj_bias.copy_(torch.cat([p.bias for p in parts]))
        theirs.out_proj.load_state_dict(module.output.state_dict())
    x, memory = torch.randn(2, 3, 16), torch.randn(2, 5, 16)
    expected = theirs(x, memory, memory, need_weights=False)[0]
    assert torch.allclose(module(x, memory), expected, atol=1e-6)


def test_causal_equals_the_causal_mask_with_and_without_another_mask():
    module, x = attention(), torch.randn(2, 6, 8)
    seen = causal_mask(6, 6)
    assert torch.allclose(module(x, causal=True), module(x, None, seen), atol=1e-6)
    padded = padding_mask(torch.tensor([[1, 1, 1, 1, 0, 0], [1] * 6]), 0)
    both = module(x, None, padded, causal=True)
    assert torch.allclose(both, module(x, None, padded & seen), atol=1e-6)


def test_a_query_that_may_look_nowhere_gets_zeros_and_finite_gradients():
    module = attention(bias=False)
    x = torch.randn(2, 3, 8, requires_grad=True)
    ids = torch.tensor([[0, 0, 0], [5, 6, 0]])
    y = module(x, None, padding_mask(ids, 0))
    assert torch.equal(y[0], torch.zeros(3, 8)) and y[1].abs().sum() > 0
    y.sum().backward()
    assert torch.isfinite(x.grad).all()
    assert all(torch.isfinite(p.grad).all() for p in module.parameters())


def test_positions_fed_one_at_a_time_through_a_cache_equal_the_whole():
    module, x = attention(), torch.randn(2, 5, 8)
    whole, cache = module(x, causal=True), KeyValueCache()
    steps = [module(x[:, :2], None, None, cache, True)]
    steps += [module(x[:, t : t + 1], None, None, cache, True) for t in range(2, 5)]
    assert torch.allclose(torch.cat(steps, 1), whole, atol=1e-6)
    assert cache.length == 5


def test_a_memory_is_projected_once():
    module, cache = attention(), KeyValueCache()
    x, memory = torch.randn(2, 3, 8), torch.randn(2, 4, 8)
    first = module(x, memory, None, cache)
    again = module(x, torch.full_like(memory, math.nan), None, cache)
    assert torch.equal(first, again)
    assert cache.length == 4


def test_a_reordered_cache_holds_the_chosen_samples():
    module, x = attention(), torch.randn(3, 4, 8)
    cache, rows = KeyValueCache(), torch.tensor([2, 0, 0])
    module(x[:, :3], None, None, cache, True)
    cache.reorder(rows)
    last = module(x[rows, 3:], None, None, cache, True)
    assert torch.allclose(last, module(x[rows], causal=True)[:, 3:], atol=1e-6)


def test_an_empty_cache_can_be_reordered():
    cache = KeyValueCache()
    cache.reorder(torch.tensor([0]))
    assert cache.length == 0 and cache.keys is None


def test_dropout_of_the_weights_works_in_training_only():
    module, x = attention(dropout=0.5), torch.randn(2, 4, 8)
    assert torch.equal(module(x), module(x))
    module.train()
    assert not torch.equal(module(x), module(x))


def test_what_cannot_be_is_refused():
    with pytest.raises(ModelError, match="Nearest: 2 heads"):
        MultiHeadAttention(8, 3)
    with pytest.raises(ModelError, match="the heads must divide"):
        MultiHeadAttention(8, 0)
    with pytest.raises(ModelError, match="says what may be seen"):
        attention()(torch.zeros(1, 2, 8), None, torch.zeros(2, 2))


def test_repr_names_heads_and_dropout():
    assert "heads=2, dropout=0.5" in repr(attention(dropout=0.5))
