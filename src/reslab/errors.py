"""The exceptions reslab raises on purpose, each with the exit code the command line gives it.

Every one also inherits the built-in that fits, so ``except ValueError`` keeps working. The library
raises; only the command line prints. Nothing else lives here and this module imports nothing.
"""

__all__ = [
    "DataError",
    "DiskError",
    "MissingDependencyError",
    "ModelError",
    "NonFiniteLossError",
    "RecipeError",
    "ReslabError",
    "RunError",
    "UnknownNameError",
    "UsageError",
    "WeightsError",
]


class ReslabError(Exception):
    """What went wrong, in one sentence: the thing, its value, what was expected, what to do.

    >>> print(ReslabError("batch_size is wrong", got=0, expected="1 or more", hint="Try 128."))
    batch_size is wrong: got 0, expected 1 or more. Try 128.
    """

    exit_code = 1

    def __init__(
        self, what: str, *, got: object = None, expected: object = None, hint: str | None = None
    ) -> None:
        self.what, self.got, self.expected, self.hint = what, got, expected, hint
        details = []
        if got is not None:
            details.append(f"got {got!r}")
        if expected is not None:
            details.append(f"expected {expected}")
        message = f"{what}: {', '.join(details)}" if details else what
        super().__init__(f"{message}. {hint}" if hint else message)

    def __str__(self) -> str:
        return str(self.args[0])


class UsageError(ReslabError, ValueError):
    """The caller asked for something that cannot be: exit code 2."""

    exit_code = 2


class UnknownNameError(UsageError, LookupError):
    """A name that no registry entry, field or class has."""


class RecipeError(UsageError):
    """A recipe with an unknown key, a value out of range, or values that contradict each other."""


class ModelError(UsageError):
    """A net that cannot be built as asked: an impossible depth, option or shape."""


class DataError(ReslabError, ValueError):
    """Data that is missing, damaged, or does not fit the model."""


class WeightsError(ReslabError, ValueError):
    """Weights that cannot be read or do not fit the model."""


class RunError(ReslabError, RuntimeError):
    """A run that cannot start, go on, or be resumed."""


class NonFiniteLossError(RunError, ArithmeticError):
    """The loss became NaN or infinite."""


class DiskError(ReslabError, OSError):
    """A file could not be written; the one it would have replaced is untouched."""


class MissingDependencyError(ReslabError, ImportError):
    """An optional package or program that this call needs is not installed."""
