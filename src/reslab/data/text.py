"""Text as token ids: what a split of text is, and the tokenizer that travels with the weights.

Text comes as running text (`StreamSplit`) or as pairs of sequences (`PairSplit`); `tasks` turns
either into what a net reads. Tokenizers are those of the `tokenizers` library, kept as its JSON.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor

from reslab.errors import DataError

__all__ = [
    "BEGIN",
    "END",
    "MASK",
    "PAD",
    "SEPARATOR",
    "SPECIAL",
    "UNKNOWN",
    "PairSplit",
    "StreamSplit",
    "decode",
    "encode_pairs",
    "encode_stream",
    "learn_tokenizer",
    "pad_rows",
    "text_sums",
    "word_tokenizer",
]

# These ids are the same in every vocabulary, and nets rely on the first.
PAD, UNKNOWN, BEGIN, END, MASK, SEPARATOR = range(6)
SPECIAL = ("[PAD]", "[UNK]", "[BEGIN]", "[END]", "[MASK]", "[SEP]")


@dataclass(frozen=True, eq=False)
class StreamSplit:
    """Running text: ids int64 [L], documents ended by END."""

    ids: Tensor

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, eq=False)
class PairSplit:
    """Pairs of sequences: int64 [N, S] and [N, T], padded with PAD; labels int64 [N] or None."""

    first: Tensor
    second: Tensor
    labels: Tensor | None = None

    def __len__(self) -> int:
        return len(self.first)

    def subset(self, indices: Tensor) -> "PairSplit":
        """The pairs at these positions, copied."""
        labels = None if self.labels is None else self.labels[indices]
        return PairSplit(self.first[indices], self.second[indices], labels)


def pad_rows(rows: Sequence[Sequence[int]], *, value: int = PAD) -> Tensor:
    """Ragged rows of ids as one tensor, filled up on the right.

    >>> pad_rows([[7, 8], [9]])
    tensor([[7, 8],
            [9, 0]])
    """
    width = max(map(len, rows), default=0)
    return torch.tensor([[*row, *[value] * (width - len(row))] for row in rows])


def word_tokenizer(words: Iterable[str], *, by_character: bool = False) -> Tokenizer:
    """A tokenizer of a known vocabulary: words between spaces with digits apart, or characters.

    >>> word_tokenizer("abc", by_character=True).encode("cab").ids
    [8, 6, 7]
    """
    vocabulary = {word: number for number, word in enumerate((*SPECIAL, *words))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL[UNKNOWN]))
    if by_character:
        tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
        tokenizer.decoder = decoders.Fuse()
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Digits(individual_digits=True)]
        )
    tokenizer.add_special_tokens(list(SPECIAL))
    return tokenizer


def learn_tokenizer(lines: Iterable[str], *, vocabulary_size: int) -> Tokenizer:
    """Sub-words of these lines by byte-pair encoding, at most `vocabulary_size` with the specials.

    Works on bytes, so no text is unknown. The same lines give the same tokenizer.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_size,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def encode_stream(tokenizer: Tokenizer, documents: Iterable[str]) -> StreamSplit:
    """The documents one after another, each ended by END."""
    ids = [i for e in tokenizer.encode_batch(list(documents)) for i in (*e.ids, END)]
    return StreamSplit(torch.tensor(ids, dtype=torch.int64))


def encode_pairs(
    tokenizer: Tokenizer,
    pairs: Sequence[tuple[str, str]],
    labels: Sequence[int] | None = None,
) -> PairSplit:
    """The pairs as padded ids."""
    sides = [[e.ids for e in tokenizer.encode_batch([p[side] for p in pairs])] for side in (0, 1)]
    for number, rows in enumerate(zip(*sides, strict=True)):
        if not all(rows):
            raise DataError("a pair has an empty side", got=pairs[number])
    return PairSplit(
        pad_rows(sides[0]),
        pad_rows(sides[1]),
        None if labels is None else torch.tensor(labels, dtype=torch.int64),
    )


def decode(tokenizer_json: str, ids: Tensor) -> list[str]:
    """Rows of ids [N, T] as text, up to the first END and without special tokens."""
    tokenizer = Tokenizer.from_str(tokenizer_json)
    rows = [row[: row.index(END)] if END in row else row for row in ids.tolist()]
    return tokenizer.decode_batch(rows, skip_special_tokens=True)


def text_sums(**splits: StreamSplit | PairSplit) -> dict[str, str]:
    """SHA-256 of the ids of each split."""
    sums = {}
    for name, split in splits.items():
        parts = [split.ids] if isinstance(split, StreamSplit) else [split.first, split.second]
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part.numpy().tobytes())
        sums[name] = digest.hexdigest()
    return sums
