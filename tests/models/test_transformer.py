"""The Transformer equals torch's, sees what it may see and nothing else, and has the paper's sizes."""

import copy

import pytest
import torch
from torch import nn

import reslab
from reslab.errors import ModelError, UnknownNameError
from reslab.models.catalog import MODELS, create_model
from reslab.models.cost import count_parameters
from reslab.nn import ResidualBlock
from reslab.nn.attention import padding_mask
from reslab.nn.scale import deepnorm_factors

SMALL = {
    "vocab_size": 20,
    "max_length": 16,
    "layers": 2,
    "width": 32,
    "heads": 4,
    "feed_forward": 64,
    "dropout": 0.0,
}
SOURCE = torch.tensor([[5, 6, 7, 8, 9], [9, 8, 7, 0, 0]])
TARGET = torch.tensor([[2, 5, 6, 7], [2, 9, 8, 0]])


def build(family="transformer", **options):
    torch.manual_seed(0)
    return create_model(family, **(SMALL | options)).eval()


def torchs(norm_first, norm_at_end):
    torch.manual_seed(1)
    theirs = nn.Transformer(
        32, 4, 2, 2, 64, dropout=0.1, layer_norm_eps=1e-5, batch_first=True, norm_first=norm_first
    ).eval()
    if not norm_at_end:
        theirs.encoder.norm = theirs.decoder.norm = None
    with torch.no_grad():
        for parameter in theirs.parameters():  # norms and biases away from 1 and 0
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return theirs


def as_torchs(norm, norm_at_end=True):
    return build(norm=norm, norm_eps=1e-5, attention_bias=True, final_norm=norm_at_end)


@pytest.mark.filterwarnings("ignore:.*nested_tensor.*")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors.*")
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("norm_at_end", [False, True])
def test_weights_of_torchs_transformer_give_its_outputs_with_masks(norm, norm_at_end):
    theirs, ours = torchs(norm == "pre", norm_at_end), as_torchs(norm, norm_at_end)
    report = reslab.load_weights(ours, theirs.state_dict(), partial=True)
    assert report.layout == "torch" and not (report.unexpected or report.skipped)
    assert report.missing == ("embedding.tokens.weight",)
    x, y = ours.embedding(SOURCE), ours.embedding(TARGET)
    hidden = torch.triu(torch.ones(4, 4, dtype=torch.bool), 1)
    memory = ours.encode(SOURCE)
    # Outside no_grad torch's encoder takes its plain path, with padded positions computed too.
    expected = theirs.encoder(x, src_key_padding_mask=SOURCE == 0)
    assert torch.allclose(memory.states, expected, atol=1e-6)
    seen = ours.decoder(y, padding_mask(TARGET, 0), memory, causal=True)
    expected = theirs.decoder(
        y,
        expected,
        tgt_mask=hidden,
        tgt_key_padding_mask=TARGET == 0,
        memory_key_padding_mask=SOURCE == 0,
    )
    assert torch.allclose(seen, expected, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*nested_tensor.*")
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_weights_go_to_torchs_stacks_and_back(norm):
    theirs, ours = torchs(norm == "pre", True), as_torchs(norm)
    for part in ("encoder", "decoder"):
        mine, its = getattr(ours, part), getattr(theirs, part)
        report = reslab.load_weights(mine, its.state_dict())
        assert not (report.missing or report.unexpected or report.skipped)
        back = reslab.state_dict_for(mine, "torch")
        assert all(torch.equal(back[k], v) for k, v in its.state_dict().items())
        copy.deepcopy(its).load_state_dict(back, strict=True)
    whole = reslab.state_dict_for(ours, "torch")
    assert whole.keys() - theirs.state_dict().keys() == {"embedding.tokens.weight"}


def test_a_changed_target_changes_no_logits_before_it():
    net = build()
    other = TARGET.clone()
    other[0, 2] = 11
    before, after = net(SOURCE, TARGET), net(SOURCE, other)
    assert torch.equal(before[0, :2], after[0, :2])
    assert not torch.allclose(before[0, 2:], after[0, 2:], atol=1e-3)


@pytest.mark.parametrize("causal", [True, False])
def test_a_language_model_sees_later_tokens_only_if_it_reads_both_ways(causal):
    net = build("transformer_lm", causal=causal)
    other = SOURCE.clone()
    other[0, 3] = 11
    before, after = net(SOURCE), net(other)
    assert torch.equal(before[0, :3], after[0, :3]) == causal
    assert not torch.allclose(before[0, 3:], after[0, 3:], atol=1e-3)


@pytest.mark.parametrize("norm", ["post", "pre", "deep"])
def test_padding_changes_nothing(norm):
    net = build(norm=norm)
    wider = [nn.functional.pad(x, (0, 3)) for x in (SOURCE, TARGET)]
    assert torch.allclose(net(*wider)[:, :4], net(SOURCE, TARGET), atol=1e-5)
    alone = net(SOURCE[1:, :3], TARGET[1:, :3])
    assert torch.allclose(alone[0], net(SOURCE, TARGET)[1, :3], atol=1e-5)


@pytest.mark.parametrize("norm", ["post", "pre", "deep"])
def test_rows_of_nothing_but_padding_give_no_nan(norm):
    net = build(norm=norm).train()
    logits = net(torch.zeros_like(SOURCE), torch.zeros_like(TARGET))
    assert torch.isfinite(logits).all()
    logits.logsumexp(2).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in net.parameters())


def test_tied_embeddings_are_one_tensor_and_untied_ones_three():
    tied, untied = build(), build(tied_embeddings=False)
    shapes = [
        [n for n, p in net.named_parameters() if p.shape == (20, 32)] for net in (tied, untied)
    ]
    assert shapes == [
        ["embedding.tokens.weight"],
        ["embedding.tokens.weight", "target_embedding.tokens.weight", "head.weight"],
    ]
    x = torch.randn(1, 2, 32)
    assert torch.allclose(tied.embedding.score(x), x @ tied.embedding.tokens.weight.T)
    untied(SOURCE, TARGET).logsumexp(2).sum().backward()
    assert all(p.grad is not None for p in untied.parameters())


def test_embeddings_are_scaled_by_the_root_of_the_width():
    embedding = build().embedding
    rows = embedding.tokens.weight[SOURCE] * 32**0.5
    assert torch.allclose(embedding(SOURCE), rows + embedding.positions(5))


def paper_parameters(width, feed_forward, layers=6, vocabulary=37_000):
    """Table 3 by arithmetic: no biases in attention, one shared embedding."""
    attention = 4 * width**2
    forward = 2 * width * feed_forward + feed_forward + width
    encoder = attention + forward + 2 * 2 * width
    decoder = 2 * attention + forward + 3 * 2 * width
    return vocabulary * width + layers * (encoder + decoder)


@pytest.mark.parametrize(
    ("name", "width", "feed_forward", "printed"),
    [("transformer_base", 512, 2048, 65), ("transformer_big", 1024, 4096, 213)],
)
def test_the_papers_sizes(name, width, feed_forward, printed):
    entry = MODELS.get(name)
    with torch.device("meta"):
        net = create_model(name)
    assert entry.parameters == count_parameters(net) == paper_parameters(width, feed_forward)
    assert entry.parameters == pytest.approx(printed * 1e6, rel=0.04)
    assert entry.paper_parameters == f"{printed}M"
    assert net.depth == 6 * 6 + 6 * 10


def last_forward_gradients(norm, layers=6):
    """Frobenius norms of the loss's gradient by the last weight of each layer, first layer first."""
    torch.manual_seed(0)
    net = create_model("transformer_lm", **(SMALL | {"layers": layers, "norm": norm, "width": 64}))
    ids = torch.randint(5, 20, (16, 12))
    logits = net(ids[:, :-1])
    nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).backward()
    return [
        layer.feed_forward.branch.contract.weight.grad.norm().item() for layer in net.stack.layers
    ]


def test_post_norm_gradients_exceed_pre_norms_at_the_last_layer_and_more_than_at_the_first():
    """Xiong 2020, theorem 1: independent of the depth against one over its root."""
    post, pre = last_forward_gradients("post"), last_forward_gradients("pre")
    assert post[-1] > 1.3 * pre[-1]
    assert post[-1] / post[0] > pre[-1] / pre[0]


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_deep_norm_takes_its_factors_from_the_table(part):
    net = build(norm="deep", encoder_layers=3, decoder_layers=2)
    alpha, beta = deepnorm_factors(part, encoder_layers=3, decoder_layers=2)
    by_hand = {
        "encoder": (0.81 * (3**4 * 2) ** (1 / 16), 0.87 * (3**4 * 2) ** (-1 / 16)),
        "decoder": (6**0.25, 24**-0.25),
    }
    assert (alpha, beta) == pytest.approx(by_hand[part])
    stack = getattr(net, part)
    blocks = [m for m in stack.modules() if isinstance(m, ResidualBlock)]
    assert {block.shortcut.factor for block in blocks} == {alpha}
    # Xavier's uniform weights reach up to gain * sqrt(6 / (in + out)).
    highest = stack.layers[0].attention.branch.attention.value.weight.abs().max().item()
    assert highest == pytest.approx(beta * (6 / 64) ** 0.5, rel=0.01)
    highest = stack.layers[0].attention.branch.attention.query.weight.abs().max().item()
    assert highest == pytest.approx((6 / 64) ** 0.5, rel=0.01)


def test_a_single_stacks_deep_norm_factors_are_those_of_an_encoder_or_decoder_alone():
    net = build("transformer_lm", norm="deep", layers=4)
    blocks = [m for m in net.modules() if isinstance(m, ResidualBlock)]
    assert {b.shortcut.factor for b in blocks} == {8**0.25}


def test_dropped_branches_follow_the_linear_rule():
    net = build(drop_path=0.3)
    rates = [m.drop_path.p for m in net.decoder.modules() if isinstance(m, ResidualBlock)]
    assert rates == pytest.approx([0.05, 0.1, 0.15, 0.2, 0.25, 0.3])


def test_what_a_net_learns_is_written_on_it():
    tasks = [build().task, build("transformer_lm").task, build("transformer_lm", causal=False).task]
    assert tasks == ["translate", "next_token", "masked"]


def test_a_causal_model_learns_sequences_by_heart():
    """What the conformance test, whose targets are random, cannot ask of a causal net."""
    net = build("transformer_lm", width=64).train()
    ids = torch.randint(5, 20, (64, 6))
    ids[:, 0] = torch.arange(64) % 20  # with the second token, a prefix that nobody shares
    ids[:, 1] = torch.arange(64) // 20 + 5
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(300):
        logits = net(ids[:, :-1])[:, 1:]
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 2:].flatten())
        if loss < 0.05:
            return
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    pytest.fail(f"the loss is still {loss.item():.3f}")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("transformer-tiny", {"heads": 3}, "Nearest: [24] heads"),
        ("transformer-tiny", {"norm": "posst"}, "unknown norm.*post"),
        ("transformer-tiny", {"width": 7, "heads": 1}, "come in pairs"),
        ("transformer-tiny", {"vocab_size": 0}, "vocab_size is wrong"),
        ("transformer-tiny", {"pad_id": 64}, "pad_id is no id"),
        ("transformer-tiny", {"pad_id": -1}, "pad_id is wrong"),
        ("transformer-tiny", {"tied_embeddings": 1}, "tied_embeddings is wrong"),
        ("transformer-tiny", {"drop_path": 1.0}, "drop_path is wrong"),
        ("transformer-tiny", {"encoder_layers": 0}, "transformer_lm"),
        ("transformer-tiny", {"decoder_layers": 0}, "decoder_layers is wrong"),
        ("transformer_lm_tiny", {"causal": "yes"}, "causal is wrong"),
    ],
)
def test_what_cannot_be_built_is_refused(name, options, message):
    with pytest.raises(ModelError, match=message):
        create_model(name, **options)


def test_a_language_model_has_no_second_stack():
    with pytest.raises(UnknownNameError, match="decoder_layers"):
        create_model("transformer_lm_tiny", decoder_layers=2)
