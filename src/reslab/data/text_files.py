"""Text of your own: files of running text, or tab-separated pairs.

    *.txt   running text, for language models
    *.tsv   two columns: source and target; three: two sentences and the label

A file, or a folder with any number of them. A folder's files (or sub-folders) named train and test,
val or valid are the splits; else every tenth line of pairs, or the last tenth of running text, is
the test split.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from PIL import Image
from tokenizers import Tokenizer

from reslab.data.source import Data
from reslab.data.text import encode_pairs, encode_stream, learn_tokenizer, text_sums
from reslab.errors import DataError

__all__ = ["is_text", "load_text"]

_ENDINGS = (".txt", ".tsv")
_TEST_NAMES = ("test", "val", "valid", "validation", "dev")
_TENTH = 10


def is_text(path: str | Path) -> bool:
    """Whether the path is a text file, or a folder with text files and no picture."""
    path = Path(path)
    if path.is_file():
        return path.suffix in _ENDINGS
    pictures = Image.registered_extensions()
    found = False
    for _, _, names in os.walk(path):
        endings = {Path(name).suffix.lower() for name in names if not name.startswith(".")}
        if not endings.isdisjoint(pictures):
            return False
        found = found or not endings.isdisjoint(_ENDINGS)
    return found


def load_text(path: str | Path, *, vocabulary_size: int = 4096, tokenizer: str = "") -> Data:
    """Text as ids, by a tokenizer learnt from the training split, or by the one given (its JSON).

    Raises DataError for text that is not UTF-8, lines with another number of columns, and splits
    with nothing in them; each names file and line.
    """
    root = Path(path)
    train, test = _split_files(root)
    kinds = {p.suffix for p in (*train, *test)}
    if len(kinds) > 1:
        raise DataError(f"{root} holds both running text (.txt) and pairs (.tsv)", expected="one")
    load = _load_pairs if kinds == {".tsv"} else _load_stream
    return load(root, train, test, vocabulary_size, tokenizer)


def _files(folder: Path) -> list[Path]:
    found = [p for p in sorted(folder.rglob("*")) if p.suffix in _ENDINGS and p.is_file()]
    return [p for p in found if not any(x.startswith(".") for x in p.relative_to(folder).parts)]


def _split_files(root: Path) -> tuple[list[Path], list[Path]]:
    if root.is_file():
        return [root], []
    files = _files(root)
    if not files:
        raise DataError(f"{root} holds no text", expected="files that end in .txt or .tsv")
    named = {p: p.relative_to(root).parts[0].split(".")[0].lower() for p in files}
    test = [p for p in files if named[p] in _TEST_NAMES]
    train = [p for p in files if named[p] == "train"] if test else files
    if not train:
        raise DataError(f"{root} has a test split but no training split", expected="train.*")
    return train, test


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not UTF-8 text ({error.reason} at byte {error.start})"
        ) from error
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror})") from error


def _load_stream(
    root: Path, train: list[Path], test: list[Path], vocabulary_size: int, tokenizer: str
) -> Data:
    documents, held = [_read(p) for p in train], [_read(p) for p in test]
    if not held:
        cuts = [len(d) - len(d) // _TENTH for d in documents]
        held = [d[cut:] for d, cut in zip(documents, cuts, strict=True)]
        documents = [d[:cut] for d, cut in zip(documents, cuts, strict=True)]
    if not any(map(str.strip, documents)) or not any(map(str.strip, held)):
        raise DataError(
            f"{root} has too little text", expected="some for training and for the test"
        )
    used = _tokenizer(tokenizer, documents, vocabulary_size)
    splits = {"train": encode_stream(used, documents), "test": encode_stream(used, held)}
    return Data(
        str(root),
        (),
        splits["train"],
        splits["test"],
        text_sums(**splits),
        tokenizer=used.to_str(),
    )


def _load_pairs(
    root: Path, train: list[Path], test: list[Path], vocabulary_size: int, tokenizer: str
) -> Data:
    rows, held = _rows(train), _rows(test)
    if not held:
        held, rows = rows[::_TENTH], [r for n, r in enumerate(rows) if n % _TENTH]
    if not rows or not held:
        raise DataError(f"{root} has too few pairs", expected="some for training and for the test")
    if len(rows[0]) != len(held[0]):
        raise DataError(f"the splits of {root} have different columns", got=len(held[0]))
    classes = tuple(sorted({r[2] for r in rows})) if len(rows[0]) == 3 else ()
    used = _tokenizer(tokenizer, [side for r in rows for side in r[:2]], vocabulary_size)
    splits = {}
    for name, part in (("train", rows), ("test", held)):
        labels = [_class(r[2], classes) for r in part] if classes else None
        splits[name] = encode_pairs(used, [(r[0], r[1]) for r in part], labels)
    return Data(
        str(root),
        classes,
        splits["train"],
        splits["test"],
        text_sums(**splits),
        tokenizer=used.to_str(),
    )


def _tokenizer(given: str, lines: Sequence[str], vocabulary_size: int) -> Tokenizer:
    if given:
        return Tokenizer.from_str(given)
    return learn_tokenizer(lines, vocabulary_size=vocabulary_size)


def _rows(paths: list[Path]) -> list[list[str]]:
    rows: list[list[str]] = []
    for path in paths:
        for number, line in enumerate(_read(path).splitlines(), 1):
            if not line.strip():
                continue
            columns = line.split("\t")
            wanted = (len(rows[0]),) if rows else (2, 3)
            if len(columns) not in wanted or not all(map(str.strip, columns)):
                raise DataError(
                    f"{path}, line {number} is no pair",
                    got=line[:80],
                    expected=f"{' or '.join(map(str, wanted))} columns with a tab between",
                )
            rows.append(columns)
    return rows


def _class(name: str, classes: tuple[str, ...]) -> int:
    if name not in classes:
        raise DataError(
            "a label of the test split is not in the training split", got=name, expected=classes
        )
    return classes.index(name)
