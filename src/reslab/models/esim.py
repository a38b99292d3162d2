"""ESIM, the chain net of Chen et al. 2017 (arXiv 1609.06038): does one sentence follow from another?

    a, b        = BiLSTM(premise), BiLSTM(hypothesis)                            input encoding
    a~          = sum_j softmax_j(a_i . b_j) b_j, and b~ the other way round     local inference
    m_a         = [a; a~; a - a~; a * a~], and m_b                               enhancement
    v           = average and maximum over time of BiLSTM(ReLU(Linear(m))), for both sentences
    logits      = Linear(tanh(Linear(v)))

The enhancement is a block whose merge is concatenation: a is the shortcut, [a~; a - a~; a * a~] the
branch; `enhancement=False` leaves [a; a~], the ablation without difference and product. Both sentences
share all weights. Ids [N, S] and [N, T] of int64 to logits [N, num_classes]; id 0 is padding, wherever
it stands. `esim` has 4,331,103 parameters beside its embeddings (the tests count them by hand); its
vocabulary size is ours.

`depth` counts matrices: two a direction of an LSTM (input and state), the projection, the classifier's
two.

    reslab train esim-tiny --data numbers
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reslab.errors import ModelError
from reslab.models.convert import Layout
from reslab.nn import Concat, ResidualBlock
from reslab.nn.cell import LSTMCell, run_cell
from reslab.nn.shortcut import Identity

__all__ = ["ESIM", "BiLSTM", "ESIMSpec", "SoftAlignment", "build_esim"]

_PAD = 0

FAMILY = {
    "build": "build_esim",
    "spec": "ESIMSpec",
    "input_shape": (20, 20),
    "kind": "pairs",
    "recipe": "text",
    "source": "Chen 2017",
    "smallest": {"vocab_size": 10, "width": 16, "dropout": 0.0},
    "smallest_shape": (5, 7),
    "nets": {
        "esim": {
            "options": {},
            "depth": 11,
            "parameters": 13_331_103,
            "macs": 145_680_900,
        },
        "esim-tiny": {
            "options": {"width": 64, "dropout": 0.2},
            "depth": 11,
            "parameters": 2_118_979,
            "macs": 6_791_360,
            "source": "Chen 2017, made small",
        },
    },
}


@dataclass(frozen=True, kw_only=True)
class ESIMSpec:
    """The numbers of a net.

    `width` is that of one direction of an LSTM and of both hidden linear layers; `embedding` that of
    a word, `width` where None. `dropout` is a probability, applied before every linear layer of the
    net and on the embeddings. `enhancement` adds difference and product to the aligned sentences.
    """

    vocab_size: int = 30_000
    width: int = 300
    embedding: int | None = None
    num_classes: int = 3
    dropout: float = 0.5
    enhancement: bool = True
    checkpoint_activations: bool = False

    def __post_init__(self) -> None:
        if self.embedding is None:
            object.__setattr__(self, "embedding", self.width)
        for name in ("vocab_size", "width", "embedding", "num_classes"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ModelError(f"{name} is wrong", got=value, expected="a whole number from 1")
        for name in ("enhancement", "checkpoint_activations"):
            if not isinstance(getattr(self, name), bool):
                raise ModelError(f"{name} is wrong", got=getattr(self, name), expected="a boolean")
        if isinstance(self.dropout, str) or not 0 <= self.dropout < 1:
            raise ModelError("dropout is wrong", got=self.dropout, expected="0 up to below 1")

    @property
    def depth(self) -> int:
        """Two LSTMs of two directions of two matrices, the projection, two layers of the classifier."""
        return 2 * 2 * 2 + 1 + 2


class BiLSTM(nn.Module):
    """[N, T, in_features] -> [N, T, 2 width]: one LSTM in each direction, forward first; as torch's."""

    def __init__(self, in_features: int, width: int) -> None:
        super().__init__()
        self.ahead = LSTMCell(in_features, width)
        self.back = LSTMCell(in_features, width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """States of both directions; `mask` [N, T] is true on words, which come before padding."""
        order = _reversal(mask)[..., None]
        reverse = run_cell(self.back, x.gather(1, order.expand_as(x)))
        back = reverse.gather(1, order.expand_as(reverse))
        return torch.cat((run_cell(self.ahead, x), back), dim=-1)


def _reversal(mask: Tensor) -> Tensor:
    """Indices [N, T] that turn the words of each sentence round and leave padding where it is."""
    steps = torch.arange(mask.shape[1], device=mask.device)
    return torch.where(mask, mask.sum(1, keepdim=True) - 1 - steps, steps)


class SoftAlignment(nn.Module):
    """What b says about each word of a: a~, and with `enhancement` a - a~ and a * a~ beside it."""

    def __init__(self, *, enhancement: bool) -> None:
        super().__init__()
        self.enhancement = enhancement

    def forward(self, a: Tensor, b: Tensor, mask: Tensor) -> Tensor:
        """[N, S, D] and [N, T, D], with b's words [N, T] true -> [N, S, 3 D] or [N, S, D]."""
        aligned = F.scaled_dot_product_attention(a, b, b, attn_mask=mask[:, None], scale=1.0)
        if not self.enhancement:
            return aligned
        return torch.cat((aligned, a - aligned, a * aligned), dim=-1)

    def extra_repr(self) -> str:
        """Whether difference and product are there."""
        return f"enhancement={self.enhancement}"


class ESIM(nn.Module):
    """Premise ids [N, S] and hypothesis ids [N, T] to logits [N, num_classes]; `task` as in the data.

    >>> net = build_esim(vocab_size=50, width=8).eval()
    >>> premise, hypothesis = torch.tensor([[3, 4, 5, 0]]), torch.tensor([[3, 6]])
    >>> net(premise, hypothesis).shape
    torch.Size([1, 3])
    """

    task = "pair_label"

    def __init__(self, spec: ESIMSpec) -> None:
        super().__init__()
        assert spec.embedding is not None, "the spec fills it in"
        self.spec = spec
        self.depth = spec.depth
        self.layouts: tuple[Layout, ...] = ()
        self.origin: Any = None
        both = 2 * spec.width
        self.embed = nn.Embedding(spec.vocab_size, spec.embedding, padding_idx=_PAD)
        self.dropout = nn.Dropout(spec.dropout)
        self.encoder = BiLSTM(spec.embedding, spec.width)
        self.block = ResidualBlock(
            SoftAlignment(enhancement=spec.enhancement), Identity(), merge=Concat(dim=-1)
        )
        enhanced = both * (4 if spec.enhancement else 2)
        self.projection = nn.Sequential(
            OrderedDict(
                dropout=nn.Dropout(spec.dropout),
                linear=nn.Linear(enhanced, spec.width),
                act=nn.ReLU(),
            )
        )
        self.composition = BiLSTM(spec.width, spec.width)
        self.head = _build_head(spec)

    def forward(self, premise: Tensor, hypothesis: Tensor) -> Tensor:
        """Logits of the relation; a sentence of padding alone counts as one word that says nothing."""
        a, a_mask = self._encode(premise)
        b, b_mask = self._encode(hypothesis)
        sides = ((a, b, a_mask, b_mask), (b, a, b_mask, a_mask))
        pooled = [self._compose(self.block(x, y, of_y), of_x) for x, y, of_x, of_y in sides]
        return self.head(torch.cat(pooled, dim=-1))

    def _encode(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        ids = _words_first(ids)
        mask = ids != _PAD
        first = torch.arange(ids.shape[1], device=ids.device) == 0
        mask = mask | first
        return self.encoder(self.dropout(self.embed(ids)), mask), mask

    def _compose(self, enhanced: Tensor, mask: Tensor) -> Tensor:
        states = self.composition(self.projection(enhanced), mask)
        return _average_and_maximum(states, mask[..., None])

    def extra_repr(self) -> str:
        """Depth."""
        return f"depth={self.depth}"


def _words_first(ids: Tensor) -> Tensor:
    """The same words in the same order, padding moved to the end."""
    return ids.gather(1, (ids == _PAD).int().argsort(dim=1, stable=True))


def _average_and_maximum(states: Tensor, mask: Tensor) -> Tensor:
    """[N, T, D] with mask [N, T, 1] -> [N, 2 D]: over the words of each sentence."""
    average = (states * mask).sum(1) / mask.sum(1)
    lowest = torch.finfo(states.dtype).min
    maximum = states.masked_fill(~mask, lowest).amax(1)
    return torch.cat((average, maximum), dim=-1)


def _build_head(spec: ESIMSpec) -> nn.Sequential:
    return nn.Sequential(
        OrderedDict(
            dropout1=nn.Dropout(spec.dropout),
            hidden=nn.Linear(8 * spec.width, spec.width),
            act=nn.Tanh(),
            dropout2=nn.Dropout(spec.dropout),
            classifier=nn.Linear(spec.width, spec.num_classes),
        )
    )


def build_esim(**options: Any) -> ESIM:
    """The net of these options, those of ESIMSpec, with torch's initialisation."""
    net = ESIM(ESIMSpec(**options))
    for block in net.modules():
        if isinstance(block, ResidualBlock):
            block.checkpoint_activations = net.spec.checkpoint_activations
    return net
