"""One class: things by name, with close names suggested when a name is unknown."""

import difflib
import fnmatch
from collections.abc import Iterator
from typing import Generic, TypeVar

from reslab.errors import UnknownNameError, UsageError

__all__ = ["Registry", "close_names"]

T = TypeVar("T")


def close_names(name: str, known: list[str]) -> str:
    """A hint that names the closest known names, or all of them when nothing is close."""
    close = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    if close:
        return f"Did you mean {' or '.join(close)}?"
    return f"Known: {', '.join(sorted(known))}." if known else "Nothing is known yet."


class Registry(Generic[T]):
    """Entries of one kind by name.

    >>> fruit = Registry[int]("fruit")
    >>> fruit.add("apple", 3)
    >>> fruit.get("apple"), fruit.names("a*")
    (3, ['apple'])
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}

    def add(self, name: str, value: T) -> None:
        """Put `value` under `name`; a name that is taken raises UsageError."""
        if name in self._entries:
            raise UsageError(f"{self.kind} {name!r} is registered already", hint="Pick a new name.")
        self._entries[name] = value

    def get(self, name: str) -> T:
        """The entry of that name, or UnknownNameError with the closest names."""
        try:
            return self._entries[name]
        except KeyError:
            raise UnknownNameError(
                f"unknown {self.kind} {name!r}", hint=close_names(name, list(self._entries))
            ) from None

    def names(self, pattern: str = "*") -> list[str]:
        """Names that match a shell pattern, in the order they were added."""
        return [n for n in self._entries if fnmatch.fnmatch(n, pattern)]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)
