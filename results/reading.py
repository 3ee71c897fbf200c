"""Frozen dataclasses out of parsed JSON, every mistake told by file, line, field and type.

A store may hold millions of lines: what reads a class is made once, of its type hints, and where a
value stands is put together only when something is wrong with it.
"""

from __future__ import annotations

import functools
import json
import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar, Union

from impls.interface.problem import Problem

Record = TypeVar("Record")
Reader = Callable[[Any], Any]
# Nothing that is counted is as many as that, and floating-point arithmetic with it is safe.
_LARGEST = 2**63


class SchemaError(ValueError):
    """A run file does not say what the schema says; the message has file, line and field."""


class _Mistake(Exception):
    """What is wrong with a value, and by which fields one comes to it, the innermost first."""

    def __init__(self, words: str, *path: str) -> None:
        super().__init__(words)
        self.words, self.path = words, list(path)


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
    """The value of JSON text; NaN and Infinity are no JSON, half a character is no text.

    Raises:
        SchemaError: a bare NaN or Infinity, a lone surrogate, or a value that is too long or too
            deep to read.
        json.JSONDecodeError: the text is no JSON, for instance cut short.
    """

    def refuse(word: str) -> float:
        raise SchemaError(f"{place}: the bare word {word} is not JSON: write null")

    try:
        value = json.loads(text, parse_constant=refuse)
        if "\\ud" in text or "\\uD" in text:
            # Only such an escape can make a string that no file and no terminal takes.
            json.dumps(value, ensure_ascii=False).encode()
    except (json.JSONDecodeError, SchemaError):
        raise
    except UnicodeEncodeError:
        raise SchemaError(f"{place}: half a character, as \\ud800 is, is no text") from None
    except (RecursionError, ValueError) as error:
        # Thousands of digits or brackets: nobody wrote such a record.
        raise SchemaError(f"{place}: cannot be read: {error}") from None
    return value


def read_record(cls: type[Record], value: Any, place: Place) -> Record:
    """The dataclass `cls` from a JSON object; fields it does not know are left out.

    A field `pass_` is read from "pass". A field with a default may be absent.

    Raises:
        SchemaError: a field is missing or has another type, with both types told.
    """
    try:
        return _record_reader(cls)(value)
    except _Mistake as mistake:
        place = functools.reduce(Place.at, reversed(mistake.path), place)
        raise SchemaError(f"{place}: {mistake.words}") from None
    except RecursionError:
        raise SchemaError(f"{place}: cannot be read: it is too deep") from None


@functools.cache
def _record_reader(cls: type) -> Reader:
    hints = typing.get_type_hints(cls)
    parts: list[tuple[str, str, Reader, str | None]] = []
    for field in fields(cls):
        hint = hints[field.name]
        is_required = field.default is MISSING and field.default_factory is MISSING
        missing = f"missing, expected {_name(hint)}" if is_required else None
        parts.append((field.name, field.name.removesuffix("_"), _reader(hint), missing))

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _mismatch("an object", value)
        given: dict[str, Any] = {}
        for name, key, reader, missing in parts:
            if key in value:
                try:
                    given[name] = reader(value[key])
                except _Mistake as mistake:
                    mistake.path.append(key)
                    raise
            elif missing is not None:
                raise _Mistake(missing, key)
        return cls(**given)

    return read


@functools.cache
def _reader(hint: Any) -> Reader:
    """What reads a value of this type, or raises a `_Mistake`."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        (inner,) = [_reader(a) for a in arguments if a is not type(None)]
        return lambda value: None if value is None else inner(value)
    if origin is tuple:
        return _list_reader(hint, arguments[0])
    if origin is Mapping:
        return _mapping_reader(_reader(arguments[1]))
    if hint in _SCALARS:
        return _SCALARS[hint]
    if is_dataclass(hint):
        return _record_reader(typing.cast(type, hint))
    raise TypeError(f"nothing reads {hint}")


def _list_reader(hint: Any, item: Any) -> Reader:
    reader = _reader(item)

    def read(value: Any) -> tuple:
        if not isinstance(value, list):
            raise _mismatch(_name(hint), value)
        # Samples come by the thousand; one that is not finite makes a sum that is not.
        if item is float and {*map(type, value)} == {float} and math.isfinite(sum(value)):
            return tuple(value)
        return tuple(_at(str(i), reader, v) for i, v in enumerate(value))

    return read


def _mapping_reader(reader: Reader) -> Reader:
    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _mismatch("an object", value)
        return {k: _at(k, reader, v) for k, v in value.items()}

    return read


def _at(name: str, reader: Reader, value: Any) -> Any:
    try:
        return reader(value)
    except _Mistake as mistake:
        mistake.path.append(name)
        raise


def _read_float(value: Any) -> float:
    return value if type(value) is float and math.isfinite(value) else _number(float, value)


def _read_int(value: Any) -> int:
    if type(value) is int and -_LARGEST < value < _LARGEST:
        return value
    number = _number(int, value)
    if number != int(number) or abs(number) >= _LARGEST:
        raise _mismatch(_name(int), value)
    return int(number)


def _number(hint: type, value: Any) -> float:
    """The value as a float; a number of hundreds of digits is none."""
    try:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    except OverflowError:
        pass
    raise _mismatch(_name(hint), value)


def _read_str(value: Any) -> str:
    if not isinstance(value, str):
        raise _mismatch(_name(str), value)
    return value


def _read_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _mismatch(_name(bool), value)
    return value


def _read_any(value: Any) -> Any:
    """Whatever it is, as long as strict JSON can say it again: 1e999 is read as infinite."""
    if isinstance(value, dict):
        for key, part in value.items():
            _at(key, _read_any, part)
    elif isinstance(value, list):
        for i, part in enumerate(value):
            _at(str(i), _read_any, part)
    elif isinstance(value, float) and not math.isfinite(value):
        raise _mismatch("a finite number", value)
    return value


def _read_problem(value: Any) -> Problem:
    try:
        if isinstance(value, str):
            return Problem.parse(value)
        if isinstance(value, dict):
            sizes = [v for v in value.values() if isinstance(v, int)]
            if any(size >= _LARGEST for size in sizes):
                raise ValueError(f"a size of {len(str(max(sizes)))} digits is none")
            problem = Problem.from_json(value)
            # The types that a problem takes on trust of who writes one down.
            if isinstance(problem.causal, bool) and isinstance(problem.operator, str):
                return problem
            raise ValueError("causal is true or false, and an operator has a name")
    except (ValueError, TypeError) as error:
        raise _Mistake(str(error)) from None
    raise _mismatch("a problem", value)


_SCALARS: dict[Any, Reader] = {
    str: _read_str,
    bool: _read_bool,
    int: _read_int,
    float: _read_float,
    Any: _read_any,
    Problem: _read_problem,
}


def _mismatch(expected: str, value: Any) -> _Mistake:
    text = json.dumps(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    got = text if value is None else f"{_json_type(value)} {text}"
    return _Mistake(f"expected {expected}, got {got}")


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
