"""Recurrent nets over token ids: the shortcut through time came before the one through depth.

    ids [N, T] -> embedding -> layers of one cell -> classifier -> logits [N, T, vocab_size]

Logits at t are of the token after t; outputs="last" gives those of the last step alone, [N,
vocab_size]. The cells (`reslab.nn.cell`) are "rnn", "gru", "lstm" and "highway"; the latter passes
`recurrence_depth` highway layers a step (arXiv 1607.03474). Steps run in a loop of our own, not in
torch's fused kernels; for the same weights it computes what torch.nn.RNN, GRU and LSTM compute.
Weights of a net made of `encoder`, `rnn` and `decoder` (an Embedding, one of those, a Linear) load
and go back under the layout "torch".

`depth` counts the matrices of a step: one for the input and one (or `recurrence_depth`) for the
state in each layer, and the classifier. The named nets are small ones of this toolkit: no paper has
their sizes; the tests check their parameters by arithmetic. What is carried through time, and what
comes back of the gradient: `reslab.models.recurrence_view`.

    python -c "import reslab; print(reslab.create_model('gru_tiny'))"
"""

import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor, nn

from reslab.errors import ModelError
from reslab.models.convert import Layout
from reslab.nn import ResidualBlock
from reslab.nn.cell import Cell, GRUCell, HighwayCell, LSTMCell, TanhCell, run_cell
from reslab.registry import close_names

__all__ = ["RecurrentNet", "RecurrentSpec", "build_recurrent"]

_CELLS = {"rnn": TanhCell, "gru": GRUCell, "lstm": LSTMCell, "highway": HighwayCell}

FAMILY = {
    "build": "build_recurrent",
    "spec": "RecurrentSpec",
    "input_shape": (32,),
    "kind": "tokens",
    "recipe": "text",
    "source": "sizes chosen here",
    "smallest": {
        "cell": "highway",
        "recurrence_depth": 2,
        "vocab_size": 10,
        "width": 32,
        "outputs": "last",
    },
    "smallest_shape": (6,),
    "nets": {
        "gru_tiny": {
            "options": {"cell": "gru"},
            "depth": 3,
            "parameters": 57_984,
            "macs": 1_310_720,
        },
        "lstm_tiny": {
            "options": {"cell": "lstm"},
            "depth": 3,
            "parameters": 66_304,
            "macs": 1_572_864,
        },
        "rhn_tiny": {
            "options": {"cell": "highway", "recurrence_depth": 4},
            "depth": 6,
            "parameters": 74_496,
            "macs": 1_835_008,
        },
    },
}


@dataclass(frozen=True, kw_only=True)
class RecurrentSpec:
    """The numbers of a recurrent net; the embedding is as wide as the state.

    `carry_bias` is the first bias of the gate that keeps the state (z of the GRU, the forget gate of
    the LSTM, minus that of the highway's transform gate): 1 where there is a gate and nothing is
    given. `tied` uses the embedding's matrix for the classifier too (arXiv 1608.05859).
    """

    cell: str
    vocab_size: int = 256
    width: int = 64
    layers: int = 1
    recurrence_depth: int = 1
    carry_bias: float | None = None
    tied: bool = False
    outputs: str = "all"
    checkpoint_activations: bool = False

    def __post_init__(self) -> None:
        for name, legal in (("cell", [*_CELLS]), ("outputs", ["all", "last"])):
            value = getattr(self, name)
            if value not in legal:
                raise ModelError(
                    f"unknown {name}",
                    got=value,
                    expected=f"one of {', '.join(legal)}",
                    hint=close_names(str(value), legal),
                )
        for name in ("vocab_size", "width", "layers", "recurrence_depth"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ModelError(f"{name} is wrong", got=value, expected="a whole number from 1")
        for name in ("tied", "checkpoint_activations"):
            if not isinstance(getattr(self, name), bool):
                raise ModelError(f"{name} is wrong", got=getattr(self, name), expected="a boolean")
        self._check_cell()

    def _check_cell(self) -> None:
        """Options that the cell does not have are refused rather than ignored."""
        if self.recurrence_depth != 1 and self.cell != "highway":
            raise ModelError(
                f"a step of the cell {self.cell!r} is one layer deep",
                got=self.recurrence_depth,
                expected=1,
                hint="cell='highway' takes a recurrence_depth.",
            )
        if self.cell == "rnn" and self.carry_bias:
            raise ModelError("the cell 'rnn' has no gate", got=self.carry_bias, expected="no bias")
        if self.carry_bias is None:
            object.__setattr__(self, "carry_bias", 0.0 if self.cell == "rnn" else 1.0)
        elif isinstance(self.carry_bias, bool) or not abs(self.carry_bias) < 1e4:
            raise ModelError("carry_bias is wrong", got=self.carry_bias, expected="a number")

    @property
    def depth(self) -> int:
        """Matrices of one step, the classifier's with them."""
        return self.layers * (1 + self.recurrence_depth) + 1


@dataclass(frozen=True)
class TorchLayout(Layout):
    """torch's names, in which the layer's number is part of the parameter's: weight_ih_l0."""

    def translate(self, state: Mapping[str, Tensor], *, to_ours: bool) -> dict[str, Tensor]:
        """The same tensors under the other names; keys that neither side has keep theirs."""
        rename = _from_torch if to_ours else _to_torch
        return super().translate(
            {rename(key): tensor for key, tensor in state.items()}, to_ours=to_ours
        )


def _from_torch(key: str) -> str:
    match = re.fullmatch(r"rnn\.(weight|bias)_(ih|hh)_l(\d+)", key)
    if match is None:
        return key
    leaf, side, number = match.groups()
    return f"layers.{number}.{'input' if side == 'ih' else 'recurrent'}.{leaf}"


def _to_torch(key: str) -> str:
    match = re.fullmatch(r"layers\.(\d+)\.(input|recurrent)\.(weight|bias)", key)
    if match is None:
        return key
    number, side, leaf = match.groups()
    return f"rnn.{leaf}_{'ih' if side == 'input' else 'hh'}_l{number}"


_TORCH = TorchLayout(
    "torch",
    (("stem.embedding", "encoder"), ("head.classifier", "decoder")),
    mean=None,
    std=None,
)


class RecurrentNet(nn.Module):
    """Token ids [N, T] int64 to logits [N, T, vocab_size], or of the last step [N, vocab_size].

    `layers` are cells, run one after the other over all steps from states of zeros.
    """

    def __init__(self, spec: RecurrentSpec) -> None:
        super().__init__()
        self.spec = spec
        self.depth = spec.depth
        self.origin: Any = None
        self.task = "next_token" if spec.outputs == "all" else "next_word"
        self.layouts = () if spec.cell == "highway" else (_TORCH,)
        embedding = nn.Embedding(spec.vocab_size, spec.width)
        classifier = nn.Linear(spec.width, spec.vocab_size)
        if spec.tied:
            nn.init.normal_(embedding.weight, std=spec.width**-0.5)
            classifier.weight = embedding.weight
        self.stem = nn.Sequential(OrderedDict(embedding=embedding))
        self.layers = nn.ModuleList(_build_cell(spec) for _ in range(spec.layers))
        self.head = nn.Sequential(OrderedDict(classifier=classifier))

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of the tokens that come next."""
        x = self.stem(ids)
        for cell in self.layers:
            x = run_cell(cast(Cell, cell), x)
        return self.head(x[:, -1] if self.spec.outputs == "last" else x)

    def extra_repr(self) -> str:
        """What an architecture listing must not leave open."""
        return f"depth={self.depth}, cell={self.spec.cell}, outputs={self.spec.outputs}"


def build_recurrent(*, cell: str, **options: Any) -> RecurrentNet:
    """A net of these cells ("rnn", "gru", "lstm", "highway"); `options` are those of RecurrentSpec."""
    net = RecurrentNet(RecurrentSpec(cell=cell, **options))
    for module in net.modules():
        if isinstance(module, ResidualBlock):
            module.checkpoint_activations = net.spec.checkpoint_activations
    return net


def _build_cell(spec: RecurrentSpec) -> nn.Module:
    assert spec.carry_bias is not None, "the spec fills it in"
    if spec.cell == "highway":
        return HighwayCell(
            spec.width,
            spec.width,
            recurrence_depth=spec.recurrence_depth,
            carry_bias=spec.carry_bias,
        )
    return _CELLS[spec.cell](spec.width, spec.width, carry_bias=spec.carry_bias)
