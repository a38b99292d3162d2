"""Reading the pickles of the official CIFAR archives without running what a pickle may ask for.

Only arrays of bytes or 64-bit integers and builtin containers come back. Numpy itself takes no part
in the reading: a damaged pickle can hand its C code a state that crashes the interpreter.
"""

import io
import math
import pickle
from typing import Any

import numpy as np

from reslab.errors import DataError

__all__ = ["load_arrays"]

_KINDS = ("u1", "i8")
_WRONG = (
    pickle.UnpicklingError,
    ArithmeticError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    RecursionError,
    SystemError,
    TypeError,
    ValueError,
)


class _Dtype:
    """What a pickle says of an array's type."""

    kind = "u1"

    def __init__(self, kind: str = "u1", align: object = 0, copy: object = 0) -> None:
        if kind not in _KINDS:
            raise pickle.UnpicklingError(f"arrays of {kind!r} are not allowed")
        self.kind = kind

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if state[1] == ">":
            raise pickle.UnpicklingError("big-endian arrays are not allowed")


class _Array:
    """What a pickle says of an array, and the array once it has said all."""

    array: np.ndarray | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, is_fortran, data = state
        self.fill(data, dtype, shape, "F" if is_fortran else "C")

    def fill(self, data: Any, dtype: _Dtype, shape: tuple[int, ...], order: str) -> None:
        """Take over the bytes; text is how Python 2 wrote them."""
        content = data.encode("latin1") if isinstance(data, str) else bytes(data)
        kind = np.dtype(f"<{dtype.kind}")
        if len(content) != kind.itemsize * math.prod(shape) or order not in ("C", "F"):
            raise pickle.UnpicklingError(f"{len(content)} bytes for an array of {shape}")
        flat = np.frombuffer(bytearray(content), kind)
        self.array = flat.reshape(shape, order="F" if order == "F" else "C")


def _reconstruct(kind: object, shape: object, code: object) -> _Array:
    return _Array()


def _from_buffer(data: Any, dtype: _Dtype, shape: tuple[int, ...], order: str) -> _Array:
    array = _Array()
    array.fill(data, dtype, shape, order)
    return array


def _encode(text: str, encoding: str = "latin1") -> bytes:
    # How Python 3 writes bytes in protocol 2; other codecs have no place in the files we read.
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"codec {encoding!r} is not allowed")
    return text.encode(encoding)


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy.core.numeric", "_frombuffer"): _from_buffer,
    ("numpy._core.numeric", "_frombuffer"): _from_buffer,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
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
    except _WRONG as error:
        raise DataError(
            f"cannot read {where} ({error})", expected="a pickle of plain numpy arrays"
        ) from error
    if not isinstance(value, dict):
        raise DataError(
            f"cannot read {where}", got=type(value).__name__, expected="a dictionary of arrays"
        )
    return {str(key): _plain(item) for key, item in value.items()}


def _plain(value: Any) -> Any:
    return value.array if isinstance(value, _Array) else value
