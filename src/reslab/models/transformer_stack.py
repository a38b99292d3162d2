"""What encoder-decoders and language models share: the spec, embedded tokens, a stack of layers.

A stack takes the weights of torch's `nn.TransformerEncoder` and `nn.TransformerDecoder`, and gives
them back, under the layout "torch".
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reslab.errors import ModelError
from reslab.models.convert import Layout
from reslab.models.convnet import linear_rule
from reslab.nn.block import ResidualBlock
from reslab.nn.positions import SinusoidalPositions
from reslab.nn.scale import DeepNormFactors, deepnorm_factors
from reslab.nn.transformer_block import LayerCache, LayerSpec, Memory, TransformerLayer, init_layer

__all__ = [
    "TokenEmbedding",
    "TorchLayout",
    "TransformerSpec",
    "TransformerStack",
    "new_caches",
    "torch_layout",
]

# Linear layers on the branches of a layer: four an attention, two a feed-forward.
_ENCODER_DEPTH, _DECODER_DEPTH = 6, 10


@dataclass(frozen=True, kw_only=True)
class TransformerSpec:
    """The numbers of a net; the defaults are the base model (Vaswani 2017, table 3).

    `encoder_layers` and `decoder_layers` are `layers` unless given. `norm` is "post", "pre" or "deep"
    (see `reslab.nn.transformer_block`); `final_norm` puts one more norm after each stack, by default
    with "pre" only. `tied_embeddings`: source, target and output share one matrix. Positions beyond
    `max_length` are computed when needed.
    """

    vocab_size: int = 37_000
    max_length: int = 512
    layers: int = 6
    encoder_layers: int | None = None
    decoder_layers: int | None = None
    width: int = 512
    heads: int = 8
    feed_forward: int = 2048
    dropout: float = 0.1
    attention_dropout: float = 0.0
    attention_bias: bool = False
    activation: str = "relu"
    norm: str = "post"
    norm_eps: float = 1e-6
    final_norm: bool | None = None
    tied_embeddings: bool = True
    pad_id: int = 0
    drop_path: float = 0.0
    checkpoint_activations: bool = False

    def __post_init__(self) -> None:
        for name in ("encoder_layers", "decoder_layers"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, self.layers)
        if self.final_norm is None:
            object.__setattr__(self, "final_norm", self.norm == "pre")
        for name in ("vocab_size", "max_length", "layers"):
            _check_count(name, getattr(self, name), least=1)
        for name in ("encoder_layers", "decoder_layers", "pad_id"):
            _check_count(name, getattr(self, name), least=0)
        for name in ("attention_bias", "final_norm", "tied_embeddings", "checkpoint_activations"):
            if not isinstance(getattr(self, name), bool):
                raise ModelError(f"{name} is wrong", got=getattr(self, name), expected="a boolean")
        if isinstance(self.drop_path, str) or not 0 <= self.drop_path < 1:
            raise ModelError("drop_path is wrong", got=self.drop_path, expected="0 up to below 1")
        if self.pad_id >= self.vocab_size:
            raise ModelError(
                "pad_id is no id", got=self.pad_id, expected=f"below {self.vocab_size}"
            )

    @property
    def depth(self) -> int:
        """Weighted layers on the branches: 6 an encoder's layer, 10 a decoder's (they attend twice).

        >>> TransformerSpec().depth
        96
        """
        return _ENCODER_DEPTH * self.count("encoder") + _DECODER_DEPTH * self.count("decoder")

    def count(self, part: str) -> int:
        """Layers of a part, "encoder" or "decoder"."""
        layers = {"encoder": self.encoder_layers, "decoder": self.decoder_layers}[part]
        return self.layers if layers is None else layers

    def layer(self, factors: DeepNormFactors) -> LayerSpec:
        """The numbers of one layer."""
        names = {field.name for field in dataclasses.fields(LayerSpec)} - {"alpha", "beta"}
        own: dict[str, Any] = {name: getattr(self, name) for name in names}
        return LayerSpec(**own, alpha=factors.alpha, beta=factors.beta)

    def factors(self, part: str) -> DeepNormFactors:
        """DeepNorm's alpha and beta of a part; 1 and 1 with another norm."""
        if self.norm != "deep":
            return DeepNormFactors(1.0, 1.0)
        return deepnorm_factors(
            part, encoder_layers=self.count("encoder"), decoder_layers=self.count("decoder")
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)


def _check_count(name: str, value: object, *, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ModelError(f"{name} is wrong", got=value, expected=f"a whole number from {least}")


class TokenEmbedding(nn.Module):
    """Ids to vectors, times sqrt(width), plus positions, with dropout (sections 3.4, 3.5, 5.4)."""

    def __init__(self, spec: TransformerSpec) -> None:
        super().__init__()
        self.tokens = nn.Embedding(spec.vocab_size, spec.width)
        self.positions = SinusoidalPositions(spec.max_length, spec.width)
        self.dropout = nn.Dropout(spec.dropout)
        self.scale = math.sqrt(spec.width)
        # Vectors have length about 1 in the output layer and entries about 1 at the input.
        nn.init.normal_(self.tokens.weight, std=1 / self.scale)

    def forward(self, ids: Tensor, offset: int = 0) -> Tensor:
        """Ids [N, T], the first at position `offset`, to [N, T, width]."""
        vectors = self.tokens(ids) * self.scale
        return self.dropout(vectors + self.positions(ids.shape[1], offset))

    def score(self, x: Tensor) -> Tensor:
        """[N, T, width] -> [N, T, vocab_size]: the output layer that shares this matrix."""
        return F.linear(x, self.tokens.weight)


class TransformerStack(nn.Module):
    """The layers of an encoder, or of a decoder (`has_memory`), and the final norm.

    `factors` are DeepNorm's. The stack keeps the layout of torch's class of the same job.
    """

    def __init__(
        self,
        spec: TransformerSpec,
        count: int,
        *,
        factors: DeepNormFactors,
        has_memory: bool = False,
    ) -> None:
        super().__init__()
        layer, units = spec.layer(factors), 3 if has_memory else 2
        rates = linear_rule(spec.drop_path, count * units)
        self.layers = nn.ModuleList(
            TransformerLayer(layer, drop_paths=tuple(rates[i * units : (i + 1) * units]))
            for i in range(count)
        )
        self.norm = (
            nn.LayerNorm(spec.width, eps=spec.norm_eps) if spec.final_norm else nn.Identity()
        )
        self.layouts = (torch_layout(spec.norm, {"": has_memory}),)
        for built in self.layers:
            init_layer(built, beta=factors.beta)
        for block in self.modules():
            if isinstance(block, ResidualBlock):
                block.checkpoint_activations = spec.checkpoint_activations

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        memory: Memory | None = None,
        caches: list[LayerCache] | None = None,
        causal: bool = False,
    ) -> Tensor:
        """[N, T, width] -> the same shape; with caches, x are the positions that follow those held."""
        for i, layer in enumerate(self.layers):
            x = layer(x, mask, memory, None if caches is None else caches[i], causal)
        return self.norm(x)


def new_caches(stack: TransformerStack) -> list[LayerCache]:
    """An empty cache for each layer."""
    return [LayerCache() for _ in stack.layers]


@dataclass(frozen=True)
class TorchLayout(Layout):
    """torch's names; its fused `in_proj` is cut into query, key and value, and joined again."""

    def translate(self, state: Mapping[str, Tensor], *, to_ours: bool) -> dict[str, Tensor]:
        """The same weights under the other names."""
        if to_ours:
            return super().translate(_split(state), to_ours=True)
        return _join(super().translate(state, to_ours=False))


_PARTS = ("query", "key", "value")


def _split(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    cut: dict[str, Tensor] = {}
    for key, tensor in state.items():
        stem, fused, leaf = key.rpartition(".in_proj_")
        if fused:
            cut |= {f"{stem}.{p}.{leaf}": t for p, t in zip(_PARTS, tensor.chunk(3), strict=True)}
        else:
            cut[key] = tensor
    return cut


def _join(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    joined: dict[str, Tensor] = {}
    for key, tensor in state.items():
        stem, part, leaf = _fused_parts(key)
        if part == "query":
            three = [state[f"{stem}.{p}.{leaf}"] for p in _PARTS]
            joined[f"{stem}.in_proj_{leaf}"] = torch.cat(three)
        elif not part:
            joined[key] = tensor
    return joined


def _fused_parts(key: str) -> tuple[str, str, str]:
    """Path of the attention, query, key or value, and leaf; the first two empty for other keys."""
    path, _, leaf = key.rpartition(".")
    stem, _, part = path.rpartition(".")
    fused = part in _PARTS and stem.endswith(("self_attn", "multihead_attn"))
    return (stem, part, leaf) if fused else ("", "", leaf)


def torch_layout(norm: str, parts: Mapping[str, bool]) -> TorchLayout:
    """The layout of stacks with these prefixes; the value says whether the part has a memory."""
    pairs = [pair for prefix, memory in parts.items() for pair in _pairs(prefix, memory, norm)]
    return TorchLayout("torch", tuple(pairs), first=0, mean=None, std=None)


def _pairs(prefix: str, has_memory: bool, norm: str) -> list[tuple[str, str]]:
    layer = f"{prefix}layers.{{}}"
    attentions = [("attention", "self_attn")]
    if has_memory:
        attentions.append(("cross_attention", "multihead_attn"))
    pairs = [
        (f"{layer}.{ours}.branch.attention.{part}", f"{layer}.{theirs}.{their_part}")
        for ours, theirs in attentions
        for part, their_part in (*zip(_PARTS, _PARTS, strict=True), ("output", "out_proj"))
    ]
    pairs += [
        (f"{layer}.feed_forward.branch.expand", f"{layer}.linear1"),
        (f"{layer}.feed_forward.branch.contract", f"{layer}.linear2"),
    ]
    place = "branch.norm" if norm == "pre" else "after"
    units = [ours for ours, _ in attentions] + ["feed_forward"]
    return pairs + [
        (f"{layer}.{unit}.{place}", f"{layer}.norm{number}") for number, unit in enumerate(units, 1)
    ]
