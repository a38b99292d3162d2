"""BERT, Devlin et al. 2018 (arXiv 1810.04805), section 3: Transformer layers that read both ways.

    ids [N, T] -> words + positions + token types -> norm -> layers -> hidden states [N, T, width]
    head "masked_lm"  [N, T, vocab_size]   a GELU layer and norm, then the matrix of the words
    head "classify"   [N, num_classes]     from the pooled state of the first token, [CLS]
    head "none"       [N, T, width]        the hidden states themselves

    base   12 layers, width  768, 12 heads   109,482,240 parameters with pooler (the paper: 110M)
    large  24 layers, width 1024, 16 heads   335,141,888 (340M)

The layers are those of `reslab.nn.transformer_block`: norm after the sum ("post") and the exact GELU;
`norm="pre"` puts norms inside the branches and one more after the last layer. Weights of transformers'
`BertModel`, `BertForMaskedLM` and `BertForSequenceClassification` load and go back under the layout
"transformers", and the outputs are the same to 1e-5; `bert_options` reads their config.json:

    net = reslab.create_model("bert", **bert_options(json.loads(Path("config.json").read_text())))
    reslab.load_weights(net, "model.safetensors")
    hidden, pooled = net.encode(ids)

`depth` counts linear layers: six a layer, the pooler, and those of the head but the tied one.

    reslab train bert-tiny --data reverse
"""

from collections import OrderedDict
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reslab.errors import ModelError
from reslab.models.bert_layout import TransformersLayout, bert_options
from reslab.models.bert_spec import EPSILON, BertSpec
from reslab.nn import ResidualBlock
from reslab.nn.transformer_block import TransformerLayer

__all__ = ["Bert", "BertSpec", "bert_options", "build_bert"]

FAMILY = {
    "build": "build_bert",
    "spec": "BertSpec",
    "input_shape": (128,),
    "kind": "tokens",
    "recipe": "text",
    "source": "Devlin 2018, section 3",
    "smallest": {
        "vocab_size": 12,
        "max_length": 8,
        "layers": 2,
        "width": 32,
        "heads": 2,
        "dropout": 0.0,
        "head": "classify",
        "num_classes": 4,
    },
    "smallest_shape": (6,),
    "nets": {
        "bert-tiny": {
            "options": {"layers": 2, "width": 128, "heads": 2},
            "depth": 13,
            "parameters": 4_416_698,
            "macs": 560_889_856,
            "source": "Devlin 2018, made small",
        },
        "bert_base": {
            "options": {"head": "none"},
            "depth": 73,
            "parameters": 109_482_240,
            "macs": 11_174_215_680,
            "paper_parameters": "110M",
        },
        "bert_large": {
            "options": {"layers": 24, "width": 1024, "heads": 16, "head": "none"},
            "depth": 145,
            "parameters": 335_141_888,
            "macs": 39_461_060_608,
            "paper_parameters": "340M",
        },
    },
}

_TASKS = {"masked_lm": "masked", "classify": "label", "none": "none"}


class Bert(nn.Module):
    """Token ids [N, T] of int64 to what the head gives; `task` says what it learns.

    >>> net = build_bert(vocab_size=50, layers=1, width=8, heads=2).eval()
    >>> ids = torch.tensor([[2, 7, 9, 0]])
    >>> net(ids).shape
    torch.Size([1, 4, 50])
    """

    def __init__(self, spec: BertSpec) -> None:
        super().__init__()
        self.spec = spec
        self.depth = spec.depth
        self.task = _TASKS[spec.head]
        # transformers has no pre-norm BERT.
        self.layouts = (TransformersLayout(head=spec.head),) if spec.norm == "post" else ()
        self.origin: Any = None
        self.embed = BertEmbedding(spec)
        self.layers = nn.ModuleList(TransformerLayer(spec.layer) for _ in range(spec.layers))
        last_norm = nn.LayerNorm(spec.width, eps=EPSILON)
        self.norm = last_norm if spec.norm == "pre" else nn.Identity()
        self.pooler = None if spec.head == "masked_lm" else _build_pooler(spec.width)
        self.head = _build_head(spec)

    def forward(
        self, ids: Tensor, token_types: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """The head's output; the arguments are those of `encode`."""
        hidden, pooled = self.encode(ids, token_types, mask)
        if self.spec.head == "masked_lm":
            return self.head(hidden, self.embed.word.weight)
        return self.head(hidden if pooled is None or self.spec.head == "none" else pooled)

    def encode(
        self, ids: Tensor, token_types: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Hidden states [N, T, width], and the pooled first one [N, width] (None in a masked_lm).

        `token_types` [N, T] are 0 where not given. `mask` [N, T] is true (or 1) on tokens that may be
        seen: without it, all that are not `pad_id`. States at places that are not seen mean nothing.
        """
        seen = ids != self.spec.pad_id if mask is None else mask.bool()
        hidden = self.embed(ids, token_types)
        for layer in self.layers:
            hidden = layer(hidden, seen[:, None, None, :])
        hidden = self.norm(hidden)
        return hidden, None if self.pooler is None else self.pooler(hidden[:, 0])

    def extra_repr(self) -> str:
        """What an architecture listing must not leave open."""
        return f"depth={self.depth}, norm={self.spec.norm}, head={self.spec.head}"


class BertEmbedding(nn.Module):
    """norm(word + position + token type), then dropout; all three are learnt (section 3, figure 2)."""

    def __init__(self, spec: BertSpec) -> None:
        super().__init__()
        self.word = nn.Embedding(spec.vocab_size, spec.width, padding_idx=spec.pad_id)
        self.position = nn.Embedding(spec.max_length, spec.width)
        self.token_type = nn.Embedding(spec.token_types, spec.width)
        self.norm = nn.LayerNorm(spec.width, eps=EPSILON)
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, ids: Tensor, token_types: Tensor | None = None) -> Tensor:
        """[N, T] -> [N, T, width]; ModelError where T is above the longest that was built."""
        length, longest = ids.shape[1], self.position.num_embeddings
        if length > longest:
            raise ModelError(
                "the sequence is too long for this net",
                got=length,
                expected=f"{longest} tokens or fewer",
                hint=f"Cut it, or build the net with max_length={length}.",
            )
        types = torch.zeros_like(ids) if token_types is None else token_types
        places = self.position.weight[:length]
        return self.dropout(self.norm(self.word(ids) + places + self.token_type(types)))


class MaskedLMHead(nn.Module):
    """A GELU layer and its norm, then scores by the words' own embeddings and one bias a word."""

    def __init__(self, width: int, vocab_size: int) -> None:
        super().__init__()
        self.transform = nn.Linear(width, width)
        self.act = nn.GELU()
        self.norm = nn.LayerNorm(width, eps=EPSILON)
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    def forward(self, hidden: Tensor, words: Tensor) -> Tensor:
        """[N, T, width] with words [vocab_size, width] -> [N, T, vocab_size]."""
        return F.linear(self.norm(self.act(self.transform(hidden))), words, self.bias)


def _build_pooler(width: int) -> nn.Sequential:
    return nn.Sequential(OrderedDict(linear=nn.Linear(width, width), act=nn.Tanh()))


def _build_head(spec: BertSpec) -> nn.Module:
    if spec.head == "masked_lm":
        return MaskedLMHead(spec.width, spec.vocab_size)
    if spec.head == "none":
        return nn.Identity()
    classifier = nn.Linear(spec.width, spec.num_classes)
    return nn.Sequential(OrderedDict(dropout=nn.Dropout(spec.dropout), classifier=classifier))


def build_bert(**options: Any) -> Bert:
    """The net of these options, those of BertSpec, with the authors' initialisation."""
    net = Bert(BertSpec(**options))
    _init_bert(net)
    for block in net.modules():
        if isinstance(block, ResidualBlock):
            block.checkpoint_activations = net.spec.checkpoint_activations
    return net


def _init_bert(net: Bert) -> None:
    """Matrices from N(0, 0.02) cut off at two deviations (google-research/bert); biases zero."""
    for module in net.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.trunc_normal_(module.weight, std=0.02, a=-0.04, b=0.04)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)
    with torch.no_grad():
        net.embed.word.weight[net.spec.pad_id] = 0
