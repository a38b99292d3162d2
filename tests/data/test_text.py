"""Text as ids: tokenizers, rules, files, and what each task reads of them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from reslab.data import IGNORED, build_train_loader, load_data, load_text, prepare_task
from reslab.data.rules import spell
from reslab.data.tasks import mask_tokens
from reslab.data.text import BEGIN, END, MASK, PAD, SEPARATOR, decode, learn_tokenizer
from reslab.data.text_files import is_text
from reslab.errors import DataError, RecipeError
from reslab.recipe import Recipe


@pytest.fixture(scope="module")
def reverse():
    return load_data("reverse")


def text_of(data, rows):
    return decode(data.tokenizer, rows)


def test_every_second_side_is_the_first_backwards(reverse):
    first, second = (
        text_of(reverse, side[:200]) for side in (reverse.test.first, reverse.test.second)
    )
    assert second == [word[::-1] for word in first]
    assert {len(word) for word in first} == set(range(3, 11))


@pytest.mark.parametrize("name", ["reverse", "numbers"])
def test_no_test_pair_is_a_training_pair_and_loading_again_gives_the_same(name):
    data = load_data(name)
    seen = {tuple(row) for row in data.train.first.tolist()}
    assert len(seen) == len(data.train) == 20_000
    assert not seen & {tuple(row) for row in data.test.first.tolist()}
    assert load_data(name).sums == data.sums


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "zero"),
        (13, "thirteen"),
        (40, "forty"),
        (100, "one hundred"),
        (999_999, "nine hundred ninety-nine thousand nine hundred ninety-nine"),
        (12_005, "twelve thousand five"),
    ],
)
def test_numbers_are_spelt(number, words):
    assert spell(number) == words


def test_no_number_is_unknown_to_the_tokenizer():
    data = load_data("numbers")
    assert not (data.train.second == 1).any() and not (data.test.second == 1).any()
    first, second = (text_of(data, s[:50]) for s in (data.test.first, data.test.second))
    assert [spell(int(n.replace(" ", ""))) for n in first] == second


@given(st.text(min_size=1).filter(lambda t: "\r" not in t))
def test_learnt_sub_words_lose_nothing(text):
    assert TOKENIZER.decode(TOKENIZER.encode(text).ids) == text


TOKENIZER = learn_tokenizer(["the quick brown fox", "the slow brown dog"], vocabulary_size=300)


def test_translation_reads_the_target_one_step_behind(reverse):
    split = prepare_task(reverse, "translate", length=8).test
    (source, begun), targets = split.batch(torch.arange(3), seed=0)
    row = reverse.test.second[0]
    row = row[row != PAD].tolist()
    width = begun.shape[1]
    assert begun[0].tolist() == [BEGIN, *row][:width] + [PAD] * (width - len(row) - 1)
    assert targets[0].tolist() == [*row, END][:width] + [IGNORED] * (width - len(row) - 1)
    assert source.shape[1] == max((reverse.test.first[:3] != PAD).sum(1))


def test_next_token_targets_are_the_inputs_moved_by_one(reverse):
    split = prepare_task(reverse, "next_token", length=8).test
    inputs, targets = split.inputs[0], split.targets
    known = targets[:, :-1] != IGNORED
    assert torch.equal(targets[:, :-1][known], inputs[:, 1:][known])
    assert inputs[0, 0] == BEGIN and SEPARATOR in inputs[0]


def test_next_word_windows_end_before_their_target(reverse):
    split = prepare_task(reverse, "next_word", length=8, window=3).test
    assert split.inputs[0].shape[1] == 3
    assert split.inputs[0][0].tolist() == [PAD, PAD, BEGIN]
    tokens = int((reverse.test.first != PAD).sum() + (reverse.test.second != PAD).sum())
    assert len(split) == tokens + 2 * len(reverse.test)  # every letter, SEP and END


def test_half_of_the_pairs_match_and_the_others_do_not(reverse):
    data = prepare_task(reverse, "pair_label", length=8)
    first, second = data.test.inputs
    match = torch.tensor(
        [a == b[::-1] for a, b in zip(text_of(data, first), text_of(data, second), strict=True)]
    )
    assert data.classes == ("other", "match")
    assert torch.equal(match.long(), data.test.targets) and match.sum() == 500
    whole = prepare_task(reverse, "label", length=8).test.inputs[0]
    assert whole[0, 0] == BEGIN and (whole == SEPARATOR).sum(1).eq(1).all()


def test_masking_follows_the_rates_of_bert_and_its_seed():
    ids = torch.full((200, 200), 7)
    ids[:, 0] = BEGIN
    hidden, targets = mask_tokens(ids, 1000, seed=1)
    chosen = targets != IGNORED
    assert not chosen[:, 0].any() and torch.equal(targets[chosen], ids[chosen])
    assert chosen.float().mean().item() == pytest.approx(0.15, abs=0.005)
    assert (hidden[chosen] == MASK).float().mean().item() == pytest.approx(0.8, abs=0.02)
    assert (hidden[chosen] == 7).float().mean().item() == pytest.approx(0.1, abs=0.02)
    assert torch.equal(hidden[~chosen], ids[~chosen])
    assert torch.equal(mask_tokens(ids, 1000, seed=1)[0], hidden)
    assert not torch.equal(mask_tokens(ids, 1000, seed=2)[0], hidden)


def test_masks_change_with_the_epoch_and_not_with_the_start(reverse):
    split = prepare_task(reverse, "masked", length=8).test
    loader = build_train_loader(split, preprocessing=None, batch_size=100, seed=0)
    whole, again = list(loader.epoch(0)), list(loader.epoch(0, start=7))
    assert torch.equal(whole[7].inputs[0], again[0].inputs[0])
    ids = whole[0].ids
    later = next(b for b in loader.epoch(1))
    assert not torch.equal(later.ids, ids)
    assert whole[0].scored == int((whole[0].targets != IGNORED).sum()) > 0


def test_running_text_is_read_from_files(tmp_path):
    (tmp_path / "a.txt").write_text("one two three four five. " * 200, encoding="utf-8")
    assert is_text(tmp_path)
    data = load_text(tmp_path, vocabulary_size=300)
    held = Tokenizer.from_str(data.tokenizer).decode(data.test.ids.tolist())
    assert held == ("one two three four five. " * 200)[-500:]
    split = prepare_task(data, "next_token", length=16).train
    assert torch.equal(split.targets[0, :-1], split.inputs[0][0, 1:])
    again = load_text(tmp_path / "a.txt", vocabulary_size=300)
    assert again.sums == data.sums
    with pytest.raises(DataError, match="needs pairs"):
        prepare_task(data, "translate", length=16)


def test_labelled_pairs_are_read_from_files(tmp_path):
    (tmp_path / "train.tsv").write_text("a b\tc d\tyes\nc\td\tno\n", encoding="utf-8")
    (tmp_path / "test.tsv").write_text("d\tc\tno\n", encoding="utf-8")
    data = load_data(tmp_path)
    assert data.classes == ("no", "yes")
    assert data.train.labels.tolist() == [1, 0] and data.test.labels.tolist() == [0]


def test_a_folder_with_pictures_is_no_text(tmp_path):
    (tmp_path / "README.txt").write_text("about", encoding="utf-8")
    (tmp_path / "cats").mkdir()
    (tmp_path / "cats" / "1.png").write_bytes(b"")
    assert not is_text(tmp_path)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.txt": b"\xff\xfe\x00"}, "a.txt is not UTF-8"),
        ({"a.txt": b"  "}, "too little text"),
        ({"a.tsv": b"one\ttwo\nthree\n"}, "a.tsv, line 2 is no pair"),
        ({"a.tsv": b"one\t\n"}, "line 1 is no pair"),
        ({"a.tsv": b"one\ttwo\n"}, "too few pairs"),
        ({"a.txt": b"x", "b.tsv": b"x\ty"}, "both running text"),
        ({"test.txt": b"words and words"}, "no training split"),
        ({"train.tsv": b"a\tb\tyes\n", "test.tsv": b"a\tb\tnever\n"}, "label of the test split"),
    ],
)
def test_bad_text_is_refused_with_file_and_line(tmp_path, files, message):
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        load_text(tmp_path)


def test_an_unknown_task_and_too_little_text_are_refused(reverse, tmp_path):
    with pytest.raises(DataError, match="task 'classify'"):
        prepare_task(reverse, "classify", length=8)
    (tmp_path / "a.txt").write_text("short " * 20, encoding="utf-8")
    with pytest.raises(DataError, match="gives no sample"):
        prepare_task(load_text(tmp_path), "next_token", length=500)
    with pytest.raises(RecipeError, match="betas"):
        Recipe(betas=(0.9,))
