"""The numbers of a BERT, checked: what `models/bert.py` builds from."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from reslab.errors import ModelError
from reslab.nn.transformer_block import LayerSpec
from reslab.registry import close_names

__all__ = ["EPSILON", "HEADS", "BertSpec"]

HEADS = ("masked_lm", "classify", "none")
# Of every norm in the net.
EPSILON = 1e-12


@dataclass(frozen=True, kw_only=True)
class BertSpec:
    """The numbers of a net; the defaults are those of BERT base.

    `feed_forward` is four times the width where not given. `dropout` is a probability, the same on
    embeddings, attention weights, branches and the classifier's input. `num_classes` counts with
    head="classify" only. `pad_id` is the id that nothing attends to.
    """

    vocab_size: int = 30_522
    max_length: int = 512
    layers: int = 12
    width: int = 768
    heads: int = 12
    feed_forward: int | None = None
    dropout: float = 0.1
    head: str = "masked_lm"
    num_classes: int = 2
    pad_id: int = 0
    token_types: int = 2
    norm: str = "post"
    checkpoint_activations: bool = False

    def __post_init__(self) -> None:
        for name, legal in (("head", HEADS), ("norm", ("post", "pre"))):
            value = getattr(self, name)
            if value not in legal:
                raise ModelError(
                    f"unknown {name}",
                    got=value,
                    expected=f"one of {', '.join(legal)}",
                    hint=close_names(str(value), list(legal)),
                )
        if self.feed_forward is None:
            object.__setattr__(self, "feed_forward", 4 * self.width)
        for name in ("vocab_size", "max_length", "layers", "num_classes", "token_types"):
            _check_count(name, getattr(self, name), least=1)
        _check_count("pad_id", self.pad_id, least=0)
        if self.pad_id >= self.vocab_size:
            raise ModelError(
                "pad_id is no id", got=self.pad_id, expected=f"below {self.vocab_size}"
            )
        if not isinstance(self.checkpoint_activations, bool):
            raise ModelError(
                "checkpoint_activations is wrong",
                got=self.checkpoint_activations,
                expected="a boolean",
            )
        # Width, heads, feed_forward and dropout are checked where they are used.
        assert self.layer is not None

    @property
    def layer(self) -> LayerSpec:
        """The numbers of one layer."""
        assert self.feed_forward is not None, "filled in above"
        return LayerSpec(
            width=self.width,
            heads=self.heads,
            feed_forward=self.feed_forward,
            dropout=self.dropout,
            attention_dropout=self.dropout,
            activation="gelu",
            norm=self.norm,
            norm_eps=EPSILON,
        )

    @property
    def depth(self) -> int:
        """Linear layers: six a layer, then pooler, pooler and classifier, or the masked_lm's one.

        >>> BertSpec(head="none").depth
        73
        """
        return 6 * self.layers + (2 if self.head == "classify" else 1)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)


def _check_count(name: str, value: object, *, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ModelError(f"{name} is wrong", got=value, expected=f"a whole number from {least}")
