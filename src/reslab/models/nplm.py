"""The neural probabilistic language model of Bengio et al. 2003 (JMLR 3), section 2, equation 1.

    y = b + W x + U tanh(d + H x)        x: the embeddings of the n - 1 words before, side by side

W, the direct connection, is a linear shortcut past one hidden layer; without it W = 0. The paper counts
|V|(1 + nm + h) + h(1 + (n-1)m) parameters with W, and (n-1)m|V| fewer without: |V| words, m values
an embedding, h hidden units. Ids [N, n - 1] of int64 to logits [N, |V|] of the next word.

The named nets are two rows of the paper's table 1 (Brown corpus, |V| = 16,383, n = 5): `nplm` is MLP9
(test perplexity 276), `nplm_direct` is MLP1 (268).

    reslab train nplm_direct --data numbers
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from reslab.errors import ModelError
from reslab.models.convert import Layout
from reslab.nn import ResidualBlock
from reslab.nn.shortcut import Zero

__all__ = ["NPLM", "NPLMSpec", "build_nplm"]

FAMILY = {
    "build": "build_nplm",
    "spec": "NPLMSpec",
    "input_shape": (4,),
    "kind": "tokens",
    "recipe": "text",
    "source": "Bengio 2003, table 1",
    "smallest": {"vocab_size": 12, "context": 5, "embedding": 16, "hidden": 64, "direct": True},
    "smallest_shape": (5,),
    "nets": {
        "nplm": {
            "options": {"embedding": 30, "hidden": 100, "direct": False},
            "depth": 2,
            "parameters": 2_158_273,
            "macs": 1_650_300,
            "source": "Bengio 2003, table 1, MLP9",
        },
        "nplm_direct": {
            "options": {"embedding": 60, "hidden": 50, "direct": True},
            "depth": 2,
            "parameters": 5_762_483,
            "macs": 4_763_070,
            "source": "Bengio 2003, table 1, MLP1",
        },
    },
}


@dataclass(frozen=True, kw_only=True)
class NPLMSpec:
    """The paper's |V|, n - 1, m and h, and whether W is there.

    `vocab_size` words; `context` words before the one to guess; `embedding` values a word; `hidden`
    units; `direct` adds the linear connection from the embeddings to the logits.
    """

    vocab_size: int = 16_383
    context: int = 4
    embedding: int = 30
    hidden: int = 100
    direct: bool = False
    checkpoint_activations: bool = False

    def __post_init__(self) -> None:
        for name in ("vocab_size", "context", "embedding", "hidden"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ModelError(f"{name} is wrong", got=value, expected="a whole number from 1")
        for name in ("direct", "checkpoint_activations"):
            if not isinstance(getattr(self, name), bool):
                raise ModelError(f"{name} is wrong", got=getattr(self, name), expected="a boolean")

    @property
    def depth(self) -> int:
        """H and U; the embeddings and W, which is a shortcut, do not count."""
        return 2


class NPLM(nn.Module):
    """Ids [N, context] to logits [N, vocab_size]: embeddings, then one block around a tanh layer.

    `context` is the number of words it sees, `task` what it learns of a text.

    >>> import torch
    >>> net = build_nplm(vocab_size=50, context=3)
    >>> net(torch.zeros(2, 3, dtype=torch.long)).shape
    torch.Size([2, 50])
    """

    task = "next_word"

    def __init__(self, spec: NPLMSpec) -> None:
        super().__init__()
        self.spec = spec
        self.context = spec.context
        self.depth = spec.depth
        self.layouts: tuple[Layout, ...] = ()
        self.origin: Any = None
        self.embed = nn.Embedding(spec.vocab_size, spec.embedding)
        self.flatten = nn.Flatten()
        self.block = _build_block(spec)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of the next word; ModelError where `ids` has another number of words."""
        if ids.shape[-1] != self.context:
            raise ModelError(
                "this net looks at a fixed number of words",
                got=tuple(ids.shape),
                expected=f"ids [N, {self.context}]",
                hint=f"Cut the ids to {self.context}, or build it with another context.",
            )
        return self.block(self.flatten(self.embed(ids)))

    def extra_repr(self) -> str:
        """Depth, and whether there is a direct connection."""
        return f"depth={self.depth}, direct={self.spec.direct}"


def build_nplm(**options: Any) -> NPLM:
    """The net of these options, those of NPLMSpec, with torch's initialisation."""
    return NPLM(NPLMSpec(**options))


def _build_block(spec: NPLMSpec) -> ResidualBlock:
    width = spec.context * spec.embedding
    branch = nn.Sequential(
        OrderedDict(
            hidden=nn.Linear(width, spec.hidden),
            act=nn.Tanh(),
            output=nn.Linear(spec.hidden, spec.vocab_size),
        )
    )
    # b is on the branch's output, so W is a pure matrix and its absence changes nothing else.
    direct = nn.Linear(width, spec.vocab_size, bias=False) if spec.direct else Zero()
    block = ResidualBlock(branch, direct)
    block.checkpoint_activations = spec.checkpoint_activations
    return block
