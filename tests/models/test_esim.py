"""ESIM: what padding may not change, the alignment beside a slow twin, its LSTMs beside torch's."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from reslab.errors import ModelError
from reslab.models.catalog import MODELS, create_model, task_of
from reslab.models.cost import count_parameters
from reslab.models.esim import BiLSTM, SoftAlignment
from reslab.nn import ResidualBlock


def small(**options):
    torch.manual_seed(0)
    return create_model("esim", **({"vocab_size": 20, "width": 6} | options)).double().eval()


def ragged(lengths, *, longest):
    rows = torch.randint(1, 20, (len(lengths), longest))
    return rows.masked_fill(torch.arange(longest) >= torch.tensor(lengths)[:, None], 0)


def paper_count(width, *, vocabulary, classes=3, enhanced=4):
    """Two LSTMs each way with torch's two biases a gate, projection, tanh layer, classifier."""
    lstms = 2 * 2 * (4 * width * (width + width) + 2 * 4 * width)
    projection = enhanced * 2 * width * width + width
    head = 8 * width * width + width + width * classes + classes
    return vocabulary * width + lstms + projection + head


def test_parameters_are_those_of_the_arithmetic():
    assert paper_count(300, vocabulary=0) == 4_331_103
    assert MODELS.get("esim").parameters == paper_count(300, vocabulary=30_000)
    assert MODELS.get("esim-tiny").parameters == paper_count(64, vocabulary=30_000)
    net = create_model("esim-tiny", vocab_size=50, num_classes=2, enhancement=False)
    assert count_parameters(net) == paper_count(64, vocabulary=50, classes=2, enhanced=2)


@pytest.mark.parametrize("enhancement", [True, False])
def test_padding_changes_nothing(enhancement):
    net = small(enhancement=enhancement)
    premises = ragged([7, 3, 1], longest=7)
    hypotheses = ragged([2, 5, 4], longest=5)
    together = net(premises, hypotheses)
    for row, (a, b) in enumerate(zip(premises, hypotheses, strict=True)):
        alone = net(a[a != 0][None], b[b != 0][None])
        assert torch.allclose(together[row], alone[0], atol=1e-12)
    wider = [nn.functional.pad(ids, (0, 4)) for ids in (premises, hypotheses)]
    assert torch.allclose(net(*wider), together, atol=1e-12)


def test_padding_may_stand_anywhere():
    net = small()
    right = torch.tensor([[5, 6, 7, 0, 0]])
    other = torch.tensor([[4, 9]])
    for moved in ([[0, 0, 5, 6, 7]], [[5, 0, 6, 0, 7]]):
        assert torch.equal(net(torch.tensor(moved), other), net(right, other))


def test_a_sentence_of_padding_alone_gives_finite_logits_and_gradients():
    net = small()
    logits = net(torch.zeros(1, 3, dtype=torch.long), torch.tensor([[4, 9]]))
    logits.sum().backward()
    assert logits.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())


def test_the_bilstm_equals_torchs_on_packed_sequences():
    torch.manual_seed(0)
    theirs = nn.LSTM(3, 4, batch_first=True, bidirectional=True).double()
    ours = BiLSTM(3, 4).double()
    for cell, suffix in ((ours.ahead, ""), (ours.back, "_reverse")):
        for side, linear in (("ih", cell.input), ("hh", cell.recurrent)):
            linear.weight = getattr(theirs, f"weight_{side}_l0{suffix}")
            linear.bias = getattr(theirs, f"bias_{side}_l0{suffix}")
    lengths = torch.tensor([5, 2, 4])
    mask = torch.arange(5) < lengths[:, None]
    x = torch.randn(3, 5, 3, dtype=torch.float64)
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    wanted, _ = pad_packed_sequence(theirs(packed)[0], batch_first=True)
    assert torch.allclose(ours(x, mask)[mask], wanted[mask], atol=1e-12)


def test_soft_alignment_equals_a_loop_over_words():
    torch.manual_seed(0)
    a, b = torch.randn(2, 3, 4).double(), torch.randn(2, 5, 4).double()
    mask = torch.arange(5) < torch.tensor([[2], [5]])
    given = SoftAlignment(enhancement=True)(a, b, mask)
    for n, length in enumerate([2, 5]):
        for i, word in enumerate(a[n]):
            weights = torch.softmax(b[n, :length] @ word, 0)
            aligned = sum(w * v for w, v in zip(weights, b[n], strict=False))
            wanted = torch.cat((aligned, word - aligned, word * aligned))
            assert torch.allclose(given[n, i], wanted, atol=1e-12)
    plain = SoftAlignment(enhancement=False)(a, b, mask)
    assert torch.equal(plain, given[..., :4])


def test_the_enhancement_is_a_block_that_concatenates():
    net = small()
    a, b = torch.randn(1, 3, 12).double(), torch.randn(1, 2, 12).double()
    mask = torch.ones(1, 2, dtype=torch.bool)
    assert isinstance(net.block, ResidualBlock)
    wide = net.block(a, b, mask)
    assert wide.shape == (1, 3, 48)
    assert torch.equal(wide[..., :12], a)
    assert torch.equal(wide[..., 12:], net.block.branch(a, b, mask))


def test_swapping_the_sentences_swaps_the_halves_of_the_features():
    net = small()
    seen = []
    net.head.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    a, b = torch.tensor([[3, 4, 5]]), torch.tensor([[3, 9]])
    net(a, b), net(b, a)
    assert torch.allclose(seen[0], seen[1].roll(24, dims=1), atol=1e-12)
    assert not torch.allclose(seen[0], seen[1])


def test_options_and_task():
    net = small(embedding=5, num_classes=4)
    assert net.embed.weight.shape == (20, 5)
    assert net(torch.tensor([[1]]), torch.tensor([[2]])).shape == (1, 4)
    assert task_of(net) == "pair_label"
    assert create_model("esim-tiny", vocab_size=9).spec.embedding == 64
    for options in ({"width": 0}, {"embedding": "a"}, {"dropout": 1.0}, {"enhancement": "no"}):
        with pytest.raises(ModelError, match="is wrong"):
            small(**options)
