"""Two small sources of text made by rule, embedded: learn and test without a download.

reverse   a word of 3 to 10 letters and the same word backwards
numbers   a number below a million and its English words

reslab train transformer-tiny --data reverse
"""

import random
from collections.abc import Callable
from pathlib import Path

from reslab.data.source import SOURCES, Data, Source
from reslab.data.text import encode_pairs, text_sums, word_tokenizer

__all__ = ["load_numbers", "load_reverse", "spell"]

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
# fmt: off
_ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
    "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen",
    "sixteen", "seventeen", "eighteen", "nineteen",
)
# fmt: on
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_COMPOUNDS = [f"{ten}-{one}" for ten in _TENS for one in _ONES[1:10]]
_TRAIN, _TEST = 20_000, 1_000


def spell(number: int) -> str:
    """The English words of a whole number from 0 to 999,999.

    >>> spell(340_021)
    'three hundred forty thousand twenty-one'
    """
    if number >= 1000:
        rest = f" {spell(number % 1000)}" if number % 1000 else ""
        return f"{spell(number // 1000)} thousand{rest}"
    if number >= 100:
        rest = f" {spell(number % 100)}" if number % 100 else ""
        return f"{_ONES[number // 100]} hundred{rest}"
    if number >= 20:
        return _TENS[number // 10 - 2] + (f"-{_ONES[number % 10]}" if number % 10 else "")
    return _ONES[number]


def _reversal(draw: random.Random) -> tuple[str, str]:
    word = "".join(draw.choices(_LETTERS, k=draw.randint(3, 10)))
    return word, word[::-1]


def _spelling(draw: random.Random) -> tuple[str, str]:
    number = draw.randrange(10 ** draw.randint(1, 6))
    return str(number), spell(number)


def _distinct(rule: Callable[[random.Random], tuple[str, str]]) -> list[tuple[str, str]]:
    """Pairs without repeats, always the same ones: no test pair is a training pair."""
    draw, pairs = random.Random(0), dict[str, str]()
    while len(pairs) < _TRAIN + _TEST:
        first, second = rule(draw)
        pairs[first] = second
    # The order of drawing puts the few short ones first; the test split must have them too.
    return draw.sample(list(pairs.items()), len(pairs))


def _load(name: str, rule: Callable[[random.Random], tuple[str, str]]) -> Data:
    if name == "reverse":
        tokenizer = word_tokenizer(_LETTERS, by_character=True)
    else:
        words = (*"0123456789", "hundred", "thousand", *_ONES, *_TENS, *_COMPOUNDS)
        tokenizer = word_tokenizer(words)
    pairs = _distinct(rule)
    train, test = (encode_pairs(tokenizer, p) for p in (pairs[_TEST:], pairs[:_TEST]))
    sums = text_sums(train=train, test=test)
    return Data(name, (), train, test, sums, tokenizer=tokenizer.to_str())


def load_reverse(root: Path | None = None, download: bool = False) -> Data:
    """20,000 words of 3 to 10 letters and 1,000 others for the test, with their reversals.

    >>> data = load_reverse()
    >>> len(data.train), len(data.test)
    (20000, 1000)
    """
    return _load("reverse", _reversal)


def load_numbers(root: Path | None = None, download: bool = False) -> Data:
    """20,000 numbers below a million and 1,000 others for the test, with their English words."""
    return _load("numbers", _spelling)


SOURCES.add(
    "reverse", Source("words of letters and their reversals: 21,000 pairs, by rule", load_reverse)
)
SOURCES.add(
    "numbers", Source("numbers and their English words: 21,000 pairs, by rule", load_numbers)
)
