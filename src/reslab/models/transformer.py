"""The Transformer (Vaswani 2017, arXiv 1706.03762): an encoder-decoder of attention and feed-forward.

    source ids [N, S] -> embedding -> encoder layers -> memory [N, S, width]
    target ids [N, T] -> embedding -> decoder layers (they attend to the memory) -> logits

    base  6 + 6 layers, width 512, feed-forward 2048, 8 heads      big  1024, 4096, 16 heads

As the paper has it: norms after the sum, no biases in attention, one matrix for source, target and
output. With a vocabulary of 37,000 (section 5.1 says "about") the exact counts are 63,045,632 and
214,171,648; the paper prints 65M and 213M, which no one vocabulary gives. The tests do the sum.

`depth` counts the linear layers on the branches: 6 a layer of the encoder, 10 a layer of the decoder.
Ids by convention: 0 padding, 1 unknown, 2 begin, 3 end, 4 mask. Padding is found in the ids and
never attended to. For writing sequences see `reslab.models.decode`.

    reslab train transformer-tiny --data reverse
"""

from typing import Any

import torch
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
from reslab.nn.transformer_block import LayerCache, Memory

__all__ = ["Transformer", "build_transformer"]

FAMILY = {
    "build": "build_transformer",
    "spec": "TransformerSpec",
    "input_shape": (64, 64),
    "kind": "pairs",
    "recipe": "text",
    "source": "Vaswani 2017, table 3",
    "smallest": {
        "vocab_size": 12,
        "max_length": 8,
        "layers": 1,
        "width": 32,
        "heads": 2,
        "feed_forward": 64,
        "dropout": 0.0,
    },
    "smallest_shape": (5, 4),
    "nets": {
        "transformer-tiny": {
            "options": {
                "vocab_size": 64,
                "max_length": 64,
                "layers": 2,
                "width": 128,
                "heads": 4,
                "feed_forward": 512,
            },
            "depth": 32,
            "parameters": 930_816,
            "macs": 15_204_352,
            "input_shape": (16, 16),
            "source": "reslab",
        },
        "transformer_base": {
            "options": {},
            "depth": 96,
            "parameters": 63_045_632,
            "macs": 4_106_485_760,
            "paper_parameters": "65M",
        },
        "transformer_big": {
            "options": {"width": 1024, "heads": 16, "feed_forward": 4096, "dropout": 0.3},
            "depth": 96,
            "parameters": 214_171_648,
            "macs": 13_850_116_096,
            "paper_parameters": "213M",
        },
    },
}


class Transformer(nn.Module):
    """Source ids [N, S] and target ids [N, T] to logits [N, T, vocab_size] of the token after each.

    `task` says what it learns: to translate. `target_embedding` and `head` are None where one matrix
    serves them all (`tied_embeddings`).
    """

    task = "translate"

    def __init__(self, spec: TransformerSpec) -> None:
        super().__init__()
        self.spec = spec
        self.depth = spec.depth
        self.pad_id = spec.pad_id
        self.layouts = (torch_layout(spec.norm, {"encoder.": False, "decoder.": True}),)
        self.origin: Any = None
        self.embedding = TokenEmbedding(spec)
        self.target_embedding = None if spec.tied_embeddings else TokenEmbedding(spec)
        self.encoder = TransformerStack(
            spec, spec.count("encoder"), factors=spec.factors("encoder")
        )
        self.decoder = TransformerStack(
            spec, spec.count("decoder"), factors=spec.factors("decoder"), has_memory=True
        )
        self.head = None
        if not spec.tied_embeddings:
            self.head = nn.Linear(spec.width, spec.vocab_size, bias=False)
            nn.init.xavier_uniform_(self.head.weight)

    def forward(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        """Logits; those at t depend on the targets up to t and on the whole source."""
        return self.decode(target_ids, self.encode(source_ids))

    def encode(self, source_ids: Tensor) -> Memory:
        """What the decoder attends to: states [N, S, width] and the mask of those that count."""
        mask = padding_mask(source_ids, self.pad_id)
        return Memory(self.encoder(self.embedding(source_ids), mask), mask)

    def decode(
        self, target_ids: Tensor, memory: Memory, caches: list[LayerCache] | None = None
    ) -> Tensor:
        """Logits of the positions that the caches do not hold yet, [N, new, vocab_size]."""
        held = caches[0].own.length if caches else 0
        embedding = self.embedding if self.target_embedding is None else self.target_embedding
        mask = padding_mask(target_ids, self.pad_id)
        x = self.decoder(embedding(target_ids[:, held:], held), mask, memory, caches, True)
        return self.embedding.score(x) if self.head is None else self.head(x)

    def start_decoding(self, source: Tensor, *, begin: int) -> tuple[Tensor, DecodingState]:
        """`begin` for each source [N, S], and the state with its memory; see `models.decode`."""
        ids = torch.full((len(source), 1), begin, dtype=source.dtype, device=source.device)
        return ids, DecodingState(self.encode(source), new_caches(self.decoder))

    def next_logits(self, ids: Tensor, state: DecodingState) -> Tensor:
        """Scores after each position that the state does not hold yet; see `models.decode`."""
        assert state.memory is not None, "start_decoding gave one"
        return self.decode(ids, state.memory, state.caches)

    def extra_repr(self) -> str:
        """What an architecture listing must not leave open."""
        spec = self.spec
        return f"depth={self.depth}, norm={spec.norm}, tied_embeddings={spec.tied_embeddings}"


def build_transformer(**options: Any) -> Transformer:
    """An encoder-decoder; `options` are those of TransformerSpec."""
    spec = TransformerSpec(**options)
    for part in ("encoder", "decoder"):
        if spec.count(part) < 1:
            raise ModelError(
                f"{part}_layers is wrong",
                got=spec.count(part),
                expected="a whole number from 1",
                hint="A decoder alone is a transformer_lm." if part == "encoder" else None,
            )
    return Transformer(spec)
