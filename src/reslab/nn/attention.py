"""Multi-head attention (Vaswani 2017, section 3.2), its masks, and its key/value cache.

Masks are boolean and say what may be seen: True at [n, 1, t, s] lets query t of sample n look at key
s. Dimensions of size 1 broadcast. A query that may look nowhere gets zeros, never NaN.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reslab.errors import ModelError

__all__ = ["KeyValueCache", "MultiHeadAttention", "causal_mask", "padding_mask"]


def padding_mask(ids: Tensor, pad_id: int) -> Tensor:
    """[N, S] ids -> [N, 1, 1, S]: every query may see the keys that are not padding.

    >>> padding_mask(torch.tensor([[7, 8, 0]]), 0)
    tensor([[[[ True,  True, False]]]])
    """
    return (ids != pad_id)[:, None, None, :]


def causal_mask(queries: int, keys: int, *, device: torch.device | None = None) -> Tensor:
    """[queries, keys]: the last query sees all keys, each one before it a key less.

    >>> causal_mask(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


class KeyValueCache:
    """Keys and values of earlier steps, [N, heads, T, width / heads]; one for each attention."""

    def __init__(self) -> None:
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    @property
    def length(self) -> int:
        """Positions held."""
        return 0 if self.keys is None else self.keys.shape[2]

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Add the keys and values of new positions; everything held, the new ones last."""
        if self.keys is not None and self.values is not None:
            keys = torch.cat((self.keys, keys), 2)
            values = torch.cat((self.values, values), 2)
        self.keys, self.values = keys, values
        return keys, values

    def reorder(self, rows: Tensor) -> None:
        """Sample i becomes what sample rows[i] was: beam search keeps some and drops others."""
        if self.keys is not None and self.values is not None:
            self.keys = self.keys.index_select(0, rows)
            self.values = self.values.index_select(0, rows)


class MultiHeadAttention(nn.Module):
    """softmax(Q K^T / sqrt(width / heads)) V in `heads` subspaces (Vaswani 2017, eq. 1).

    Separate projections `query`, `key`, `value` and `output`, width to width each. `dropout` is that
    of the attention weights, in training; `bias=False` leaves the projections' biases out, as the
    paper's formulas do.

    >>> attention = MultiHeadAttention(8, 2)
    >>> attention(torch.zeros(3, 5, 8)).shape
    torch.Size([3, 5, 8])
    """

    def __init__(self, width: int, heads: int, *, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        if heads < 1 or width % heads:
            near = [h for h in range(1, width + 1) if width % h == 0]
            raise ModelError(
                "the heads must divide the width",
                got=f"{heads} heads, width {width}",
                hint=f"Nearest: {min(near, key=lambda h: abs(h - heads))} heads.",
            )
        self.heads = heads
        self.dropout = dropout
        self.query = nn.Linear(width, width, bias=bias)
        self.key = nn.Linear(width, width, bias=bias)
        self.value = nn.Linear(width, width, bias=bias)
        self.output = nn.Linear(width, width, bias=bias)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: Tensor | None = None,
        cache: KeyValueCache | None = None,
        causal: bool = False,
    ) -> Tensor:
        """[N, T, width] attends to memory [N, S, width], or to itself -> [N, T, width].

        `mask` broadcasts to [N, heads, T, S]; `causal` lets each query see the keys up to its own
        (without a mask this takes the fast kernels). With a `cache`, self-attention adds x's keys and
        values to those held and attends to all of them, so S counts those held too; attention to a
        memory projects it the first time and never again.
        """
        queries = self._split(self.query(x))
        if memory is not None and cache is not None and cache.length:
            assert cache.keys is not None and cache.values is not None
            keys, values = cache.keys, cache.values
        else:
            source = x if memory is None else memory
            keys, values = self._split(self.key(source)), self._split(self.value(source))
            if cache is not None:
                keys, values = cache.extend(keys, values)
        if causal and not (mask is None and queries.shape[2] == keys.shape[2]):
            # torch's is_causal takes no mask beside it and aligns the first query with the first key.
            before = causal_mask(queries.shape[2], keys.shape[2], device=x.device)
            mask, causal = before if mask is None else mask & before, False
        return self.output(
            self._attend((queries, keys, values), mask, causal).transpose(1, 2).flatten(2)
        )

    def _split(self, x: Tensor) -> Tensor:
        """[N, T, width] -> [N, heads, T, width / heads]."""
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)

    def _attend(
        self, qkv: tuple[Tensor, Tensor, Tensor], mask: Tensor | None, causal: bool
    ) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        if mask is None:
            return F.scaled_dot_product_attention(*qkv, dropout_p=dropout, is_causal=causal)
        if mask.dtype != torch.bool:
            raise ModelError(
                "an attention mask says what may be seen", got=mask.dtype, expected="torch.bool"
            )
        # A row without any True would be softmax of nothing: see everything, then take zeros.
        nowhere = ~mask.any(-1, keepdim=True)
        seen = F.scaled_dot_product_attention(*qkv, attn_mask=mask | nowhere, dropout_p=dropout)
        return seen.masked_fill(nowhere, 0)

    def extra_repr(self) -> str:
        """What the projections do not show."""
        return f"heads={self.heads}, dropout={self.dropout}"
