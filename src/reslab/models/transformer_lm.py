"""Transformers of one stack that score every token: language models, and readers both ways.

    ids [N, T] -> embedding -> layers of attention and feed-forward -> logits [N, T, vocab_size]

`causal=True` (the names below) is a decoder alone: each position sees those before it and scores
the token after it. `causal=False` is an encoder alone that sees the whole sequence and scores the
token at each place, to be trained on masked tokens. Norms stand inside the branches (Xiong 2020,
arXiv 2002.04745, section 3) unless `norm` says "post" or "deep"; positions are sinusoidal; input and
output share one matrix. `depth` counts the linear layers on the branches, 6 a layer.

The conformance net reads both ways: its random targets cannot be told from a first token alone.

    reslab train transformer_lm_tiny --data reverse
"""

from typing import Any

from torch import Tensor, nn

from reslab.errors import ModelError
from reslab.models.decode import DecodingState
from reslab.models.transformer_stack import (
    TokenEmbedding,
    TransformerSpec,
    TransformerStack,
    new_caches,
    torch_layout,
)
from reslab.nn.attention import padding_mask
from reslab.nn.transformer_block import LayerCache

__all__ = ["TransformerLM", "build_transformer_lm"]

FAMILY = {
    "build": "build_transformer_lm",
    "spec": "TransformerSpec",
    "fixed": ("encoder_layers", "decoder_layers"),
    "input_shape": (64,),
    "kind": "tokens",
    "recipe": "text",
    "source": "reslab",
    "smallest": {
        "vocab_size": 12,
        "max_length": 8,
        "layers": 1,
        "width": 64,
        "heads": 4,
        "feed_forward": 128,
        "dropout": 0.0,
        "causal": False,
    },
    "smallest_shape": (6,),
    "nets": {
        "transformer_lm_tiny": {
            "options": {
                "vocab_size": 64,
                "max_length": 64,
                "layers": 2,
                "width": 128,
                "heads": 4,
                "feed_forward": 512,
            },
            "depth": 12,
            "parameters": 403_968,
            "macs": 27_787_264,
        },
        "transformer_lm_small": {
            "options": {
                "vocab_size": 4096,
                "max_length": 256,
                "layers": 4,
                "width": 256,
                "feed_forward": 1024,
            },
            "depth": 24,
            "parameters": 4_204_032,
            "macs": 1_207_959_552,
            "input_shape": (256,),
        },
    },
}


class TransformerLM(nn.Module):
    """Ids [N, T] to logits [N, T, vocab_size]: of the next token (causal), or of each (both ways).

    `task` says what it learns: "next_token" or "masked".
    """

    def __init__(self, spec: TransformerSpec, *, causal: bool = True) -> None:
        super().__init__()
        self.spec = spec
        self.causal = causal
        self.task = "next_token" if causal else "masked"
        self.depth = spec.depth
        self.pad_id = spec.pad_id
        self.layouts = (torch_layout(spec.norm, {"stack.": False}),)
        self.origin: Any = None
        self.embedding = TokenEmbedding(spec)
        # DeepNorm's factors are the same for an encoder alone and for a decoder alone.
        self.stack = TransformerStack(spec, spec.layers, factors=spec.factors("encoder"))
        self.head = None
        if not spec.tied_embeddings:
            self.head = nn.Linear(spec.width, spec.vocab_size, bias=False)
            nn.init.xavier_uniform_(self.head.weight)

    def forward(self, ids: Tensor, caches: list[LayerCache] | None = None) -> Tensor:
        """Logits of the positions that the caches do not hold yet; of all, without caches."""
        held = caches[0].own.length if caches else 0
        mask = padding_mask(ids, self.pad_id)
        x = self.stack(self.embedding(ids[:, held:], held), mask, None, caches, self.causal)
        return self.embedding.score(x) if self.head is None else self.head(x)

    def start_decoding(self, source: Tensor, *, begin: int) -> tuple[Tensor, DecodingState]:
        """The prompt [N, T] to go on from (T from 1), and an empty state; see `models.decode`."""
        if not self.causal:
            raise ModelError("a net that reads both ways writes no sequences", hint="causal=True.")
        return source, DecodingState(None, new_caches(self.stack))

    def next_logits(self, ids: Tensor, state: DecodingState) -> Tensor:
        """Scores after each position that the state does not hold yet; see `models.decode`."""
        return self(ids, state.caches)

    def extra_repr(self) -> str:
        """What an architecture listing must not leave open."""
        return f"depth={self.depth}, norm={self.spec.norm}, causal={self.causal}"


def build_transformer_lm(*, causal: bool = True, **options: Any) -> TransformerLM:
    """A stack that scores tokens; `options` are those of TransformerSpec, pre-norm and GELU here."""
    if not isinstance(causal, bool):
        raise ModelError("causal is wrong", got=causal, expected="a boolean")
    defaults: dict[str, Any] = {"norm": "pre", "activation": "gelu", "decoder_layers": 0}
    return TransformerLM(TransformerSpec(**(defaults | options)), causal=causal)
