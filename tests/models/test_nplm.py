"""The neural probabilistic language model of Bengio 2003: its formula, its count, its words."""

import pytest
import torch

from reslab.errors import ModelError
from reslab.models.catalog import MODELS, create_model, task_of
from reslab.models.cost import count_parameters
from reslab.nn.shortcut import Zero

BROWN = 16_383


def paper_count(vocabulary, n, m, h, *, direct):
    """|V|(1 + nm + h) + h(1 + (n-1)m), Bengio 2003, section 2; W alone has (n-1)m|V|."""
    count = vocabulary * (1 + n * m + h) + h * (1 + (n - 1) * m)
    return count if direct else count - (n - 1) * m * vocabulary


@pytest.mark.parametrize(
    ("name", "m", "h", "direct"), [("nplm", 30, 100, False), ("nplm_direct", 60, 50, True)]
)
def test_named_nets_have_the_paper_formulas_parameters(name, m, h, direct):
    count = paper_count(BROWN, 5, m, h, direct=direct)
    assert MODELS.get(name).parameters == count
    assert count_parameters(create_model(name)) == count


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize(("vocabulary", "n", "m", "h"), [(11, 3, 2, 5), (7, 6, 4, 1)])
def test_the_formula_holds_for_any_sizes(vocabulary, n, m, h, direct):
    net = create_model(
        "nplm", vocab_size=vocabulary, context=n - 1, embedding=m, hidden=h, direct=direct
    )
    assert count_parameters(net) == paper_count(vocabulary, n, m, h, direct=direct)


@pytest.mark.parametrize("direct", [True, False])
def test_logits_are_those_of_equation_1(direct):
    torch.manual_seed(0)
    net = create_model(
        "nplm", vocab_size=9, context=2, embedding=3, hidden=4, direct=direct
    ).double()
    ids = torch.tensor([[1, 8], [0, 3]])
    branch = net.block.branch
    for row, logits in zip(ids.tolist(), net(ids), strict=True):
        x = torch.cat([net.embed.weight[word] for word in row])
        hidden = torch.tanh(branch.hidden.bias + branch.hidden.weight @ x)
        y = branch.output.bias + branch.output.weight @ hidden
        if direct:
            y = y + net.block.shortcut.weight @ x
        assert torch.allclose(logits, y, atol=1e-12)


def test_without_direct_connections_the_block_is_plain():
    assert isinstance(create_model("nplm").block.shortcut, Zero)
    assert create_model("nplm_direct").block.shortcut.bias is None


def test_it_says_what_it_learns_and_how_many_words_it_sees():
    net = create_model("nplm", context=7)
    assert (task_of(net), net.context, net.depth) == ("next_word", 7, 2)
    with pytest.raises(ModelError, match=r"ids \[N, 7\]"):
        net(torch.zeros(2, 5, dtype=torch.long))


@pytest.mark.parametrize(
    "options", [{"hidden": 0}, {"context": 1.5}, {"vocab_size": True}, {"direct": 1}]
)
def test_wrong_values_are_refused(options):
    with pytest.raises(ModelError, match="is wrong"):
        create_model("nplm", **options)
