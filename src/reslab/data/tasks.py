"""What a net reads of a text: one `TokenSplit` for each task.

    translate    (first, BEGIN second) -> second END         encoder-decoder
    next_token   ids -> ids moved by one                     language model
    next_word    a window of ids -> the id after it          NPLM
    masked       ids with some masked -> those ids           BERT
    pair_label   (first, second) -> label                    ESIM
    label        BEGIN first SEP second END -> label         BERT with a classification head

Targets of -100 are not scored (torch's `cross_entropy` leaves them out).
"""

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from reslab.data.source import Data
from reslab.data.text import BEGIN, END, MASK, PAD, SEPARATOR, SPECIAL, PairSplit, StreamSplit
from reslab.errors import DataError
from reslab.seeding import stable_seed

__all__ = ["IGNORED", "TASKS", "TokenSplit", "count_scored", "mask_tokens", "prepare_task"]

IGNORED = -100
TASKS = ("translate", "next_token", "next_word", "masked", "pair_label", "label")


@dataclass(frozen=True, eq=False)
class TokenSplit:
    """Samples as nets read them: ids int64 [N, ...] for each input; targets int64 [N] or [N, T].

    With `is_masked` the targets are drawn anew in each epoch from the one input (`mask_tokens`).
    """

    inputs: tuple[Tensor, ...]
    targets: Tensor
    vocabulary_size: int
    is_masked: bool = False

    def __len__(self) -> int:
        return len(self.targets)

    def batch(self, ids: Tensor, *, seed: int) -> tuple[tuple[Tensor, ...], Tensor]:
        """Inputs and targets of these samples; `seed` decides which tokens are masked."""
        inputs = tuple(_trim(x[ids]) for x in self.inputs)
        if self.is_masked:
            hidden, targets = mask_tokens(inputs[0], self.vocabulary_size, seed=seed)
            return (hidden,), targets
        targets = self.targets[ids]
        return inputs, targets if targets.ndim == 1 else targets[:, : inputs[-1].shape[1]]


def count_scored(targets: Tensor) -> int:
    """Targets that count: all but those of -100."""
    return int((targets != IGNORED).sum())


def _trim(rows: Tensor) -> Tensor:
    """Without the columns on the right that hold nothing but padding."""
    used = (rows != PAD).any(0).nonzero()
    return rows[:, : int(used.max()) + 1] if len(used) else rows[:, :1]


def mask_tokens(
    ids: Tensor, vocabulary_size: int, *, seed: int, rate: float = 0.15
) -> tuple[Tensor, Tensor]:
    """Ids with some hidden, and the hidden ones as targets (BERT, section 3.1).

    Of the tokens chosen (15 %), 80 % become MASK, 10 % another token, 10 % stay. Special tokens are
    never chosen.
    """
    generator = torch.Generator().manual_seed(seed)
    draw = torch.rand(ids.shape, generator=generator)
    chosen = (draw < rate) & (ids >= len(SPECIAL))
    how = torch.rand(ids.shape, generator=generator)
    other = torch.randint(len(SPECIAL), vocabulary_size, ids.shape, generator=generator)
    hidden = torch.where(chosen & (how < 0.8), MASK, ids)
    hidden = torch.where(chosen & (how >= 0.9), other, hidden)
    return hidden, torch.where(chosen, ids, IGNORED)


def prepare_task(data: Data, task: str, *, length: int, window: int = 0) -> Data:
    """The data as `TokenSplit`s for a task; DataError when the text does not suit it.

    `length` is that of a sample of running text, `window` the words an NPLM sees. Pairs without
    labels get them for the tasks that need some: half of the second sides are swapped with another
    sample's, and the classes are "other" and "match".
    """
    if task not in TASKS:
        raise DataError(f"text does not suit this net (task {task!r})", expected="a net for text")
    if task in ("pair_label", "label") and not data.classes:
        data = _with_matches(data)
    if task not in ("pair_label", "label"):
        data = dataclasses.replace(data, classes=())
    build = _BUILDERS[task]
    size = _vocabulary_size(data)
    splits = [build(split, size, length, window) for split in (data.train, data.test)]
    _same_width(splits)
    return dataclasses.replace(data, train=splits[0], test=splits[1])


def _vocabulary_size(data: Data) -> int:
    from tokenizers import Tokenizer

    return Tokenizer.from_str(data.tokenizer).get_vocab_size()


def _same_width(splits: list[TokenSplit]) -> None:
    if not all(len(split) for split in splits):
        raise DataError(
            "a split of the text gives no sample", hint="Give more text or a shorter length."
        )


def _pairs(split: PairSplit | StreamSplit, task: str) -> PairSplit:
    if not isinstance(split, PairSplit):
        raise DataError(
            f"the task {task} needs pairs and this is running text", expected="a .tsv file"
        )
    return split


def _translate(split: PairSplit | StreamSplit, size: int, length: int, window: int) -> TokenSplit:
    pairs = _pairs(split, "translate")
    begun = torch.nn.functional.pad(pairs.second, (1, 0), value=BEGIN)
    targets = _ended(pairs.second)
    targets = targets.masked_fill(targets == PAD, IGNORED)
    return TokenSplit((pairs.first, begun), targets, size)


def _ended(rows: Tensor) -> Tensor:
    """[N, T] -> [N, T + 1] with END after the last token of each row."""
    longer = torch.nn.functional.pad(rows, (0, 1), value=PAD)
    ends = (rows != PAD).sum(1)
    longer[torch.arange(len(rows)), ends] = END
    return longer


def _joined(split: PairSplit) -> Tensor:
    """BEGIN first SEP second END, padded: [N, S + T + 3]."""
    rows = [
        [BEGIN, *_trimmed(a), SEPARATOR, *_trimmed(b), END]
        for a, b in zip(split.first.tolist(), split.second.tolist(), strict=True)
    ]
    width = split.first.shape[1] + split.second.shape[1] + 3
    return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows])


def _trimmed(row: list[int]) -> list[int]:
    return row[: row.index(PAD)] if PAD in row else row


def _windows(split: PairSplit | StreamSplit, length: int) -> Tensor:
    """Sequences of ids: joined pairs, or pieces of running text that do not overlap."""
    if isinstance(split, PairSplit):
        return _joined(split)
    count = len(split.ids) // length
    return split.ids[: count * length].reshape(count, length)


def _next_token(split: PairSplit | StreamSplit, size: int, length: int, window: int) -> TokenSplit:
    rows = _windows(split, length + 1)
    targets = rows[:, 1:]
    return TokenSplit((rows[:, :-1],), targets.masked_fill(targets == PAD, IGNORED), size)


def _next_word(split: PairSplit | StreamSplit, size: int, length: int, window: int) -> TokenSplit:
    if window < 1:
        raise DataError("this net does not say how many words it sees", expected="net.context")
    if isinstance(split, PairSplit):
        rows = _joined(split)
        padded = torch.nn.functional.pad(rows, (window - 1, 0), value=PAD)
        pieces = padded.unfold(1, window + 1, 1).reshape(-1, window + 1)
        pieces = pieces[pieces[:, -1] != PAD]
    else:
        pieces = split.ids.unfold(0, window + 1, 1)
    return TokenSplit((pieces[:, :-1],), pieces[:, -1], size)


def _masked(split: PairSplit | StreamSplit, size: int, length: int, window: int) -> TokenSplit:
    rows = _windows(split, length)
    return TokenSplit((rows,), rows, size, is_masked=True)


def _labels(split: PairSplit) -> Tensor:
    assert split.labels is not None, "pairs without labels were given some"
    return split.labels


def _pair_label(split: PairSplit | StreamSplit, size: int, length: int, window: int) -> TokenSplit:
    pairs = _pairs(split, "pair_label")
    return TokenSplit((pairs.first, pairs.second), _labels(pairs), size)


def _label(split: PairSplit | StreamSplit, size: int, length: int, window: int) -> TokenSplit:
    pairs = _pairs(split, "label")
    return TokenSplit((_joined(pairs),), _labels(pairs), size)


_BUILDERS = {
    "translate": _translate,
    "next_token": _next_token,
    "next_word": _next_word,
    "masked": _masked,
    "pair_label": _pair_label,
    "label": _label,
}


def _with_matches(data: Data) -> Data:
    return dataclasses.replace(
        data,
        classes=("other", "match"),
        train=_matched(_pairs(data.train, "pair_label"), "train"),
        test=_matched(_pairs(data.test, "pair_label"), "test"),
    )


def _matched(split: PairSplit, name: str) -> PairSplit:
    """Half of the pairs, drawn at random, pass their second sides round."""
    generator = torch.Generator().manual_seed(stable_seed("matches", name))
    order = torch.randperm(len(split), generator=generator)
    swapped = order[: len(split) // 2]
    second, labels = split.second.clone(), torch.ones(len(split), dtype=torch.int64)
    second[swapped] = split.second[swapped.roll(1)]
    labels[swapped] = 0
    return PairSplit(split.first, second, labels)
