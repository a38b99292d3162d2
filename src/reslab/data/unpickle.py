"""Reading the pickles of the official CIFAR archives without running what a pickle may ask for.

Only numpy arrays and builtin containers come back; anything else in the stream is refused.
"""

import io
import pickle
from typing import Any

import numpy as np

from reslab.errors import DataError

__all__ = ["load_arrays"]


def _dtype(spec: str, align: bool = False, copy: bool = False) -> np.dtype[Any]:
    # Pickles of Python 2 hold 0 and 1 for the flags, which numpy 2.4 and later warn about.
    return np.dtype(spec, bool(align), bool(copy))


def _encode(text: str, encoding: str = "latin1") -> bytes:
    # How Python 3 writes bytes in protocol 2; other codecs have no place in the files we read.
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"codec {encoding!r} is not allowed")
    return text.encode(encoding)


_reconstruct: Any = np.zeros(0).__reduce__()[0]
_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): _dtype,
    ("_codecs", "encode"): _encode,
}


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed") from None


def load_arrays(data: bytes, where: str) -> dict[str, Any]:
    """The dictionary in a pickle of arrays, lists, text and numbers.

    Raises DataError, naming `where`, when the bytes are no such pickle or ask for anything else.
    """
    try:
        value = _ArraysOnly(io.BytesIO(data), encoding="latin1").load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, IndexError,
            KeyError, MemoryError, OverflowError, ImportError) as error:  # fmt: skip
        raise DataError(
            f"cannot read {where} ({error})", expected="a pickle of plain numpy arrays"
        ) from error
    if not isinstance(value, dict):
        raise DataError(
            f"cannot read {where}", got=type(value).__name__, expected="a dictionary of arrays"
        )
    return value
