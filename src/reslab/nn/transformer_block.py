"""The units of a Transformer as residual blocks: attention, attention to a memory, feed-forward.

    post    x = norm(x + branch(x))              Vaswani 2017, section 3.1
    pre     x = x + branch(norm(x))              Xiong 2020 (arXiv 2002.04745)
    deep    x = norm(alpha * x + branch(x))      DeepNorm (arXiv 2203.00555); alpha and the gain beta
                                                 of the branch's weights come from its table

Masks and the memory travel through a block as its context, straight to the branch.
"""

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor, nn

from reslab.errors import ModelError
from reslab.nn.attention import KeyValueCache, MultiHeadAttention
from reslab.nn.block import ResidualBlock
from reslab.nn.scale import ScaledShortcut
from reslab.nn.shortcut import Identity
from reslab.registry import close_names

__all__ = [
    "ACTIVATIONS",
    "NORMS",
    "AttentionBranch",
    "FeedForwardBranch",
    "LayerCache",
    "LayerSpec",
    "Memory",
    "TransformerLayer",
    "init_layer",
    "residual_unit",
]

NORMS = ("post", "pre", "deep")
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")


@dataclass(frozen=True, kw_only=True)
class LayerSpec:
    """The numbers of a layer; `alpha` and `beta` are DeepNorm's and count with norm="deep" only.

    `dropout` is that at the end of each branch, `attention_dropout` that of the attention weights.
    """

    width: int
    heads: int
    feed_forward: int
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation: str = "relu"
    attention_bias: bool = True
    norm: str = "post"
    norm_eps: float = 1e-6
    alpha: float = 1.0
    beta: float = 1.0

    def __post_init__(self) -> None:
        for name, legal in (("norm", NORMS), ("activation", ACTIVATIONS)):
            value = getattr(self, name)
            if value not in legal:
                raise ModelError(
                    f"unknown {name}",
                    got=value,
                    expected=f"one of {', '.join(legal)}",
                    hint=close_names(str(value), list(legal)),
                )
        for name in ("width", "heads", "feed_forward"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ModelError(f"{name} is wrong", got=value, expected="a whole number from 1")
        for name in ("dropout", "attention_dropout"):
            value = getattr(self, name)
            if isinstance(value, str) or not 0 <= value < 1:
                raise ModelError(f"{name} is wrong", got=value, expected="0 up to below 1")


class Memory(NamedTuple):
    """What an encoder hands to the decoder: states [N, S, width], and which of them may be seen."""

    states: Tensor
    mask: Tensor | None = None


class LayerCache:
    """Keys and values of one layer's attentions; those of the memory never change once computed."""

    def __init__(self) -> None:
        self.own = KeyValueCache()
        self.memory = KeyValueCache()


class AttentionBranch(nn.Module):
    """Norm (pre only), multi-head attention to x or to a memory, dropout."""

    def __init__(self, spec: LayerSpec) -> None:
        super().__init__()
        self.norm = _inner_norm(spec)
        self.attention = MultiHeadAttention(
            spec.width, spec.heads, dropout=spec.attention_dropout, bias=spec.attention_bias
        )
        self.dropout = nn.Dropout(spec.dropout)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: Tensor | None = None,
        cache: KeyValueCache | None = None,
        causal: bool = False,
    ) -> Tensor:
        """[N, T, width] -> the same shape; the arguments are those of `MultiHeadAttention`."""
        return self.dropout(self.attention(self.norm(x), memory, mask, cache, causal))


class FeedForwardBranch(nn.Module):
    """Norm (pre only), width -> feed_forward -> width with an activation between, dropout (eq. 2)."""

    def __init__(self, spec: LayerSpec) -> None:
        super().__init__()
        self.norm = _inner_norm(spec)
        self.expand = nn.Linear(spec.width, spec.feed_forward)
        self.activation = _activation(spec.activation)
        self.contract = nn.Linear(spec.feed_forward, spec.width)
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """[N, T, width] -> the same shape, each position by itself."""
        return self.dropout(self.contract(self.activation(self.expand(self.norm(x)))))


def residual_unit(branch: nn.Module, spec: LayerSpec, *, drop_path: float = 0.0) -> ResidualBlock:
    """The branch in a residual block whose norm stands where the spec says."""
    shortcut: nn.Module = Identity()
    if spec.norm == "deep":
        shortcut = ScaledShortcut(shortcut, spec.alpha)
    after = None if spec.norm == "pre" else nn.LayerNorm(spec.width, eps=spec.norm_eps)
    return ResidualBlock(branch, shortcut, after=after, drop_path=drop_path)


class TransformerLayer(nn.Module):
    """Attention, attention to a memory (decoders only), feed-forward: a residual block each.

    `drop_paths` are the rates of dropping the blocks' branches, in that order; two build an encoder's
    layer, three a decoder's.
    """

    def __init__(self, spec: LayerSpec, *, drop_paths: tuple[float, ...] = (0.0, 0.0)) -> None:
        super().__init__()
        first, *middle, last = drop_paths
        self.attention = residual_unit(AttentionBranch(spec), spec, drop_path=first)
        self.cross_attention = None
        if middle:
            self.cross_attention = residual_unit(AttentionBranch(spec), spec, drop_path=middle[0])
        self.feed_forward = residual_unit(FeedForwardBranch(spec), spec, drop_path=last)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        memory: Memory | None = None,
        cache: LayerCache | None = None,
        causal: bool = False,
    ) -> Tensor:
        """[N, T, width] -> the same shape. `mask` is that of the attention to x itself."""
        own, far = (None, None) if cache is None else (cache.own, cache.memory)
        x = self.attention(x, None, mask, own, causal)
        if self.cross_attention is not None:
            assert memory is not None, "a decoder's layer attends to a memory"
            x = self.cross_attention(x, memory.states, memory.mask, far)
        return self.feed_forward(x)


def init_layer(layer: nn.Module, *, beta: float = 1.0) -> None:
    """Xavier weights, zero biases; what carries the signal on (not queries and keys) has gain beta."""
    for branch in (m for m in layer.modules() if isinstance(m, AttentionBranch)):
        attention = branch.attention
        _init_linear(attention.query, 1.0)
        _init_linear(attention.key, 1.0)
        _init_linear(attention.value, beta)
        _init_linear(attention.output, beta)
    for feed_forward in (m for m in layer.modules() if isinstance(m, FeedForwardBranch)):
        _init_linear(feed_forward.expand, beta)
        _init_linear(feed_forward.contract, beta)


def _init_linear(linear: nn.Linear, gain: float) -> None:
    nn.init.xavier_uniform_(linear.weight, gain=gain)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)


def _inner_norm(spec: LayerSpec) -> nn.Module:
    return nn.LayerNorm(spec.width, eps=spec.norm_eps) if spec.norm == "pre" else nn.Identity()


def _activation(name: str) -> nn.Module:
    if name == "relu":
        return nn.ReLU()
    if name == "silu":
        return nn.SiLU()
    return nn.GELU(approximate="tanh" if name == "gelu_tanh" else "none")
