"""Frozen dataclasses out of parsed JSON, every mistake told by file, line, field and type."""

from __future__ import annotations

import functools
import json
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar, Union

from impls.interface.problem import Problem

Record = TypeVar("Record")


class SchemaError(ValueError):
    """A run file does not say what the schema says; the message has file, line and field."""


@dataclass(frozen=True)
class Place:
    """Where a value stands: a file, a line of it (from 1) and a field's path."""

    file: str
    line: int | None = None
    path: str = ""

    def at(self, name: str) -> Place:
        """The place of one field of the value here."""
        return replace(self, path=f"{self.path}.{name}" if self.path else name)

    def __str__(self) -> str:
        line = "" if self.line is None else f" line {self.line}"
        return f"{self.file}{line}" + (f", field {self.path}" if self.path else "")


def parse_strict(text: str, place: Place) -> Any:
    """The value of JSON text; NaN and Infinity are no JSON.

    Raises:
        SchemaError: a bare NaN or Infinity, or a value that is too long or too deep to read.
        json.JSONDecodeError: the text is no JSON, for instance cut short.
    """

    def refuse(word: str) -> float:
        raise SchemaError(f"{place}: the bare word {word} is not JSON: write null")

    try:
        return json.loads(text, parse_constant=refuse)
    except (json.JSONDecodeError, SchemaError):
        raise
    except (RecursionError, ValueError) as error:
        # Thousands of digits or brackets: nobody wrote such a record.
        raise SchemaError(f"{place}: cannot be read: {error}") from None


def read_record(cls: type[Record], value: Any, place: Place) -> Record:
    """The dataclass `cls` from a JSON object; fields it does not know are left out.

    A field `pass_` is read from "pass". A field with a default may be absent.

    Raises:
        SchemaError: a field is missing or has another type, with both types told.
    """
    if not isinstance(value, dict):
        raise _mismatch(place, "an object", value)
    hints = _hints(cls)
    given: dict[str, Any] = {}
    for field in fields(cls):  # type: ignore[arg-type]  # every Record is a dataclass
        key = field.name.removesuffix("_")
        if key in value:
            given[field.name] = _read(hints[field.name], value[key], place.at(key))
        elif field.default is MISSING and field.default_factory is MISSING:
            expected = _name(hints[field.name])
            raise SchemaError(f"{place.at(key)}: missing, expected {expected}")
    return cls(**given)


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _read(hint: Any, value: Any, place: Place) -> Any:
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        (hint,) = [a for a in typing.get_args(hint) if a is not type(None)]
        return _read(hint, value, place)
    if hint is Any:
        return value
    if hint is Problem:
        return _read_problem(value, place)
    if origin is tuple:
        if not isinstance(value, list):
            raise _mismatch(place, _name(hint), value)
        item = typing.get_args(hint)[0]
        # Samples come by the thousand.
        if item is float and all(type(v) is float and math.isfinite(v) for v in value):
            return tuple(value)
        return tuple(_read(item, v, place.at(str(i))) for i, v in enumerate(value))
    if origin is Mapping:
        if not isinstance(value, dict):
            raise _mismatch(place, "an object", value)
        item = typing.get_args(hint)[1]
        return {k: _read(item, v, place.at(k)) for k, v in value.items()}
    if is_dataclass(hint):
        return read_record(typing.cast(type, hint), value, place)
    return _read_scalar(hint, value, place)


def _read_scalar(hint: Any, value: Any, place: Place) -> Any:
    if hint in (str, bool):
        if not isinstance(value, hint):
            raise _mismatch(place, _name(hint), value)
        return value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value):
        raise _mismatch(place, _name(hint), value)
    if hint is int:
        if value != int(value):
            raise _mismatch(place, _name(hint), value)
        return int(value)
    return float(value)


def _read_problem(value: Any, place: Place) -> Problem:
    try:
        if isinstance(value, str):
            return Problem.parse(value)
        if isinstance(value, dict):
            return Problem.from_json(value)
    except (ValueError, TypeError) as error:
        raise SchemaError(f"{place}: {error}") from None
    raise _mismatch(place, "a problem", value)


def _mismatch(place: Place, expected: str, value: Any) -> SchemaError:
    text = json.dumps(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    got = text if value is None else f"{_json_type(value)} {text}"
    return SchemaError(f"{place}: expected {expected}, got {got}")


def _json_type(value: Any) -> str:
    words = {bool: "the boolean", str: "the string", list: "the list", dict: "the object"}
    return words.get(type(value), "the number")


def _name(hint: Any) -> str:
    words = {str: "a string", bool: "true or false", int: "a whole number", float: "a number"}
    origin = typing.get_origin(hint)
    if hint in words:
        return words[hint]
    if origin in (Union, types.UnionType):
        known = [_name(a) for a in typing.get_args(hint) if a is not type(None)]
        return " or ".join([*known, "null"])
    if origin is tuple:
        return "a list"
    return "a problem" if hint is Problem else "an object"
