"""BERT as the transformers library writes it: the names of its weights, and its config.json."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from reslab.errors import ModelError
from reslab.models.bert_spec import EPSILON
from reslab.models.convert import Layout

__all__ = ["TransformersLayout", "bert_options"]

_LAYER, _THEIR_LAYER = "layers.{}", "encoder.layer.{}"
_PAIRS = (
    ("embed.word", "embeddings.word_embeddings"),
    ("embed.position", "embeddings.position_embeddings"),
    ("embed.token_type", "embeddings.token_type_embeddings"),
    ("embed.norm", "embeddings.LayerNorm"),
    *(
        (f"{_LAYER}.attention.branch.attention.{part}", f"{_THEIR_LAYER}.attention.self.{part}")
        for part in ("query", "key", "value")
    ),
    (f"{_LAYER}.attention.branch.attention.output", f"{_THEIR_LAYER}.attention.output.dense"),
    (f"{_LAYER}.attention.after", f"{_THEIR_LAYER}.attention.output.LayerNorm"),
    (f"{_LAYER}.feed_forward.branch.expand", f"{_THEIR_LAYER}.intermediate.dense"),
    (f"{_LAYER}.feed_forward.branch.contract", f"{_THEIR_LAYER}.output.dense"),
    (f"{_LAYER}.feed_forward.after", f"{_THEIR_LAYER}.output.LayerNorm"),
    ("pooler.linear", "pooler.dense"),
    ("head.transform", "cls.predictions.transform.dense"),
    ("head.norm", "cls.predictions.transform.LayerNorm"),
    ("head", "cls.predictions"),
    ("head.classifier", "classifier"),
)
_PREFIX = "bert."
_HEADS = ("cls.", "classifier.")
# Ranges and zeros that older versions stored.
_BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")
# Names from the first TensorFlow release, still in older files.
_OLD_LEAVES = {"gamma": "weight", "beta": "bias"}
# What is stored twice: the words' matrix and the bias of the masked_lm's scores.
_TWINS = {
    "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}


@dataclass(frozen=True)
class TransformersLayout(Layout):
    """transformers' names; `bert.` in front is optional, and written where there is a head.

    Stored ranges of positions are ignored. The decoder's copies of tied tensors are dropped where
    they equal what they are tied to (an untied decoder is reported as unexpected) and written back.
    """

    name: str = "transformers"
    pairs: tuple[tuple[str, str], ...] = _PAIRS
    first: int = 0
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    head: str = "none"

    def translate(self, state: Mapping[str, Tensor], *, to_ours: bool) -> dict[str, Tensor]:
        """The same weights under the other names."""
        if to_ours:
            return super().translate(_plain(state), to_ours=True)
        theirs = super().translate(state, to_ours=False)
        if self.head == "masked_lm":
            theirs |= {twin: theirs[key] for twin, key in _TWINS.items()}
        prefix = "" if self.head == "none" else _PREFIX
        return {k if k.startswith(_HEADS) else prefix + k: v for k, v in theirs.items()}


def _plain(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Their keys as the table has them."""
    plain: dict[str, Tensor] = {}
    for key, tensor in state.items():
        stem, _, leaf = key.removeprefix(_PREFIX).rpartition(".")
        plain[f"{stem}.{_OLD_LEAVES.get(leaf, leaf)}"] = tensor
    for buffer in _BUFFERS:
        plain.pop(buffer, None)
    for twin, key in _TWINS.items():
        if twin in plain and key in plain and torch.equal(plain[twin], plain[key]):
            del plain[twin]
    return plain


# Their field, our option, and the value that transformers takes for a field that is left out.
_FIELDS: tuple[tuple[str, str, Any], ...] = (
    ("vocab_size", "vocab_size", 30_522),
    ("max_position_embeddings", "max_length", 512),
    ("num_hidden_layers", "layers", 12),
    ("hidden_size", "width", 768),
    ("num_attention_heads", "heads", 12),
    ("intermediate_size", "feed_forward", 3072),
    ("hidden_dropout_prob", "dropout", 0.1),
    ("pad_token_id", "pad_id", 0),
    ("type_vocab_size", "token_types", 2),
)
_ONLY: dict[str, Any] = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "layer_norm_eps": EPSILON,
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}
_ARCHITECTURES = {
    "BertModel": "none",
    "BertForMaskedLM": "masked_lm",
    "BertForSequenceClassification": "classify",
}


def bert_options(config: Mapping[str, Any]) -> dict[str, Any]:
    """Options of `create_model("bert", ...)` for a transformers config.json, given as a dict.

    The first of its `architectures` decides the head, "none" where there are none. ModelError for
    values that this family does not have, such as another activation or relative positions.

    >>> options = bert_options({"model_type": "bert", "num_hidden_layers": 6, "hidden_size": 384})
    >>> options["layers"], options["width"], options["head"]
    (6, 384, 'none')
    """
    for field, only in _ONLY.items():
        if config.get(field, only) != only:
            raise ModelError(
                f"this BERT's {field} is not built here", got=config[field], expected=only
            )
    options = {ours: config.get(theirs, default) for theirs, ours, default in _FIELDS}
    _check_dropouts(config, options["dropout"])
    options["head"] = _head(config)
    if options["head"] == "classify":
        options["num_classes"] = config.get("num_labels", len(config.get("id2label") or "01"))
    return options


def _check_dropouts(config: Mapping[str, Any], dropout: float) -> None:
    for field in ("attention_probs_dropout_prob", "classifier_dropout"):
        value = config.get(field)
        if value is None:  # left out: 0.1 for the attention's, the same as elsewhere for the other
            value = 0.1 if field.startswith("attention") else dropout
        if value != dropout:
            raise ModelError(
                f"this family has one dropout and {field} is another",
                got=value,
                expected=f"{dropout} like hidden_dropout_prob",
                hint="It counts in training only: set both to the same value to go on.",
            )


def _head(config: Mapping[str, Any]) -> str:
    names = config.get("architectures") or ["BertModel"]
    if names[0] not in _ARCHITECTURES:
        raise ModelError(
            "this BERT's head is not built here",
            got=names[0],
            expected=f"one of {', '.join(_ARCHITECTURES)}",
            hint="Set architectures to BertModel for the hidden states alone.",
        )
    return _ARCHITECTURES[names[0]]
