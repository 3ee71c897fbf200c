"""Files that are either whole or not there: strict JSON by temporary file and rename."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    """Write a record as strict JSON: a reader sees the old file or the new, never half.

    Raises:
        OSError: it could not be written; the message names the path, the old file stays.
        ValueError: the record has a number that is not finite.
    """
    text = json.dumps(record, allow_nan=False, indent=1) + "\n"
    partial: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes it private; a store is read by others of the machine.
        Path(partial).chmod(0o644)
        Path(partial).replace(path)
    except OSError as error:
        if partial is not None:
            Path(partial).unlink(missing_ok=True)
        raise unwritable(path, error) from error


def check_writable(folder: Path) -> None:
    """Make the folder and try a file in it, before an effort that would be lost.

    Raises:
        Unwritable: it cannot be made, or nothing can be written there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise unwritable(folder, error) from error


class Unwritable(OSError):
    """What was to be kept could not be written: the disk is full, or may only be read."""


def unwritable(path: Path, error: OSError) -> Unwritable:
    """The same error, saying what could not be written and why."""
    return Unwritable(error.errno, f"cannot write {path}: {error.strerror}")


def finite(value: Any, where: str = "") -> tuple[Any, list[str]]:
    """The value with every non-finite number as None, and one reason for each of them."""
    if isinstance(value, float) and not math.isfinite(value):
        return None, [f"{where} is {value}: written as null"]
    if isinstance(value, Mapping):
        pairs = {str(k): finite(v, f"{where}.{k}" if where else str(k)) for k, v in value.items()}
        return {k: v for k, (v, _) in pairs.items()}, [r for _, rs in pairs.values() for r in rs]
    if isinstance(value, list | tuple):
        items = [finite(v, f"{where}[{i}]") for i, v in enumerate(value)]
        return [v for v, _ in items], [r for _, rs in items for r in rs]
    return value, []
