"""Recurrent nets: torch's logits and gradients, its names, sizes by arithmetic."""

import pytest
import torch
from torch import nn

import reslab
from reslab.errors import ModelError
from reslab.models.catalog import MODELS, create_model
from reslab.models.convnet import count_depth
from reslab.models.cost import count_parameters
from reslab.nn import ResidualBlock

KINDS = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
CELLS = [*KINDS, "highway"]


class Torchs(nn.Module):
    """The same net from torch's parts."""

    def __init__(self, cell, *, layers):
        super().__init__()
        self.encoder = nn.Embedding(20, 8)
        self.rnn = KINDS[cell](8, 8, layers, batch_first=True)
        self.decoder = nn.Linear(8, 20)

    def forward(self, ids):
        return self.decoder(self.rnn(self.encoder(ids))[0])


def small(cell, **options):
    torch.manual_seed(0)
    return create_model("recurrent", **({"cell": cell, "vocab_size": 20, "width": 8} | options))


def some_ids(length=7):
    return torch.randint(0, 20, (4, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("cell", KINDS)
def test_logits_and_gradients_equal_torchs_and_weights_go_back(cell, layers):
    theirs = Torchs(cell, layers=layers)
    ours = small(cell, layers=layers)
    report = reslab.load_weights(ours, theirs.state_dict())
    assert report.layout == "torch"
    assert not (report.missing or report.unexpected or report.skipped)
    logits, wanted = ours(some_ids()), theirs(some_ids())
    assert torch.allclose(logits, wanted, atol=1e-6)
    logits.logsumexp(-1).sum().backward()
    wanted.logsumexp(-1).sum().backward()
    mine = ours.layouts[0].translate({k: p.grad for k, p in ours.named_parameters()}, to_ours=False)
    for name, parameter in theirs.named_parameters():
        assert torch.allclose(mine[name], parameter.grad, atol=1e-5), name
    back = reslab.state_dict_for(ours, "torch")
    assert all(torch.equal(back[k], v) for k, v in theirs.state_dict().items())
    theirs.load_state_dict(back, strict=True)


def test_a_tied_net_loads_torchs_tied_weights():
    theirs = Torchs("gru", layers=1)
    theirs.decoder.weight = theirs.encoder.weight
    ours = small("gru", tied=True)
    reslab.load_weights(ours, theirs.state_dict())
    assert torch.allclose(ours(some_ids()), theirs(some_ids()), atol=1e-6)


@pytest.mark.parametrize(
    ("name", "gates", "recurrence_depth"),
    [("gru_tiny", 3, 1), ("lstm_tiny", 4, 1), ("rhn_tiny", 2, 4)],
)
def test_parameters_and_macs_by_arithmetic(name, gates, recurrence_depth):
    entry, width, vocab = MODELS.get(name), 64, 256
    square = gates * width * width
    biases = gates * width * (recurrence_depth if name == "rhn_tiny" else 2)
    embedding, classifier = vocab * width, vocab * width + vocab
    assert entry.parameters == (embedding + square * (1 + recurrence_depth) + biases + classifier)
    assert entry.macs == 32 * (square * (1 + recurrence_depth) + vocab * width)


def test_tied_embeddings_save_one_matrix_and_stay_tied():
    loose, tied = small("gru"), small("gru", tied=True)
    assert count_parameters(loose) - count_parameters(tied) == 20 * 8
    assert tied.head.classifier.weight is tied.stem.embedding.weight


@pytest.mark.parametrize("cell", CELLS)
def test_logits_at_a_step_depend_on_no_later_token(cell):
    net, ids = small(cell), some_ids()
    other = ids.clone()
    other[:, 4:] = (other[:, 4:] + 1) % 20
    assert torch.equal(net(ids)[:, :4], net(other)[:, :4])
    assert not torch.allclose(net(ids)[:, 4:], net(other)[:, 4:])


def test_the_last_step_alone_can_be_asked_for():
    every, last = small("lstm"), small("lstm", outputs="last")
    assert torch.allclose(last(some_ids()), every(some_ids())[:, -1], atol=1e-6)
    assert (every.task, last.task) == ("next_token", "next_word")


@pytest.mark.parametrize("cell", CELLS)
def test_every_cell_exports_and_compiles_in_one_graph(cell):
    net, ids = small(cell, layers=2).eval(), some_ids(4)
    fast = torch.compile(net, backend="eager", fullgraph=True)
    program = torch.export.export(net, (ids,)).module()
    with torch.no_grad():
        assert torch.allclose(fast(ids), net(ids), atol=1e-6)
        assert torch.allclose(program(ids), net(ids), atol=1e-6)


@pytest.mark.parametrize("cell", CELLS)
def test_checkpointing_changes_no_gradient(cell):
    nets = [small(cell), small(cell, checkpoint_activations=True)]
    for net in nets:
        net(some_ids()).logsumexp(-1).sum().backward()
    for ours, theirs in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        assert torch.equal(ours.grad, theirs.grad)


@pytest.mark.parametrize("cell", CELLS)
def test_bf16_autocast_learns_and_depth_counts_matrices(cell):
    net = small(cell, layers=3, recurrence_depth=2 if cell == "highway" else 1)
    with torch.autocast("cpu", torch.bfloat16):
        loss = net(some_ids()).float().logsumexp(-1).mean()
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in net.parameters())
    assert net.depth == count_depth(net) == (10 if cell == "highway" else 7)
    blocks = [m for m in net.modules() if isinstance(m, ResidualBlock)]
    assert len(blocks) == (6 if cell == "highway" else 3)


@pytest.mark.parametrize("cell", ["gru", "lstm", "highway"])
def test_a_period_of_three_is_learnt(cell):
    net = small(cell, width=16)
    ids = torch.tensor([[1, 5, 2, 1, 5, 2, 1, 5, 2, 1]])
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(80):
        logits = net(ids[:, :-1])
        loss = nn.functional.cross_entropy(logits[0], ids[0, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert torch.equal(net(ids[:, :-1])[0].argmax(-1), ids[0, 1:])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cell": "gruu"}, "gru"),
        ({"cell": "gru", "outputs": "lost"}, "last"),
        ({"cell": "gru", "width": 0}, "width is wrong"),
        ({"cell": "gru", "recurrence_depth": 2}, "one layer deep"),
        ({"cell": "rnn", "carry_bias": 1.0}, "no gate"),
        ({"cell": "gru", "carry_bias": float("inf")}, "carry_bias is wrong"),
        ({"cell": "gru", "tied": "yes"}, "tied is wrong"),
        ({}, "needs a cell"),
    ],
)
def test_what_cannot_be_built_is_refused(options, message):
    with pytest.raises(ModelError, match=message):
        create_model("recurrent", **options)
