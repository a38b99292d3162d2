"""The JSON form of records, and its schema version."""

import dataclasses
import types
import typing
from typing import Any, TypeVar

from reslab.errors import DataError

__all__ = ["SCHEMA", "from_json", "to_json"]

SCHEMA = 1

T = TypeVar("T")


def to_json(record: Any) -> dict[str, Any]:
    """The record as plain values."""
    return dataclasses.asdict(record)


def from_json(kind: type[T], values: dict[str, Any]) -> T:
    """The record that `to_json` wrote; DataError when the schema is newer than this reslab.

    >>> from reslab.records import CurvePoint
    >>> point = CurvePoint(iteration=1, train_error=50.0, train_loss=1.0)
    >>> from_json(CurvePoint, to_json(point)) == point
    True
    """
    if values.get("schema", SCHEMA) > SCHEMA:
        raise DataError("this file is of a newer reslab", got=values["schema"], expected=SCHEMA)
    return _build(kind, values)


def _build(kind: Any, value: Any) -> Any:
    if isinstance(kind, types.UnionType):
        inner = [k for k in typing.get_args(kind) if k is not type(None)]
        return None if value is None else _build(inner[0], value)
    if typing.get_origin(kind) is tuple:
        inner_kind = typing.get_args(kind)[0]
        return tuple(_build(inner_kind, v) for v in value)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return kind(**{k: _build(hints[k], v) for k, v in value.items() if k in hints})
    return value
