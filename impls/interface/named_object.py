"""What a user names by a string: `package.module:function` or `path/to/file.py:function`."""

from __future__ import annotations

import ast
import difflib
import hashlib
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from impls.interface.failures import failures, told, where_in

_FORM = 'write "package.module:function" or "path/to/file.py:function"'


def named_object(text: str) -> tuple[Any, str]:
    """The object behind `text` and its module's own name; paths are relative to where we are.

    Raises:
        ValueError: there is no such file, module or function, or importing it failed; the message
            tells the file and line.
    """
    place, has_function, attribute = text.rpartition(":")
    if not has_function or not place or not attribute:
        raise ValueError(f'"{text}" names no function: {_instead(text.rstrip(":"))}')
    module, stem = _module(place, text)
    return _attribute(module, attribute, place), stem


def is_of_an_object(text: str) -> bool:
    """Whether it points into a module or a file, and is no name of one of ours."""
    return ":" in text or text.endswith(".py")


def file_of(text: str) -> Path | None:
    """The file of a module that was named by `text` and is imported; None where none is known."""
    place = text.rpartition(":")[0]
    if place.endswith(".py") or "/" in place:
        return Path(place).expanduser().resolve()
    file = getattr(sys.modules.get(place), "__file__", None)
    return Path(file) if file else None


def _module(place: str, text: str) -> tuple[ModuleType, str]:
    if not (place.endswith(".py") or "/" in place):
        # Appended, not put first: what the user has installed keeps its meaning.
        if str(Path.cwd()) not in sys.path and "" not in sys.path:
            sys.path.append(str(Path.cwd()))
        return _imported(place, text), place.rpartition(".")[2]
    path = _existing(place)
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    return _loaded(path), path.stem


def _existing(place: str) -> Path:
    path = Path(place).expanduser().resolve()
    if not path.is_file():
        beside = [p.name for p in path.parent.glob("*.py")] if path.parent.is_dir() else []
        raise ValueError(f"no file {path}{_did_you_mean(path.name, beside)}")
    return path


def _imported(place: str, text: str) -> ModuleType:
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        # Only the module asked for: one that it imports itself is its own error, told below.
        if error.name is not None and (place == error.name or place.startswith(error.name + ".")):
            raise ValueError(f'no module "{error.name}" for "{text}": {_FORM}') from None
        raise ValueError(
            f"importing {place} failed at {where_in(error, None)}: {told(error)}"
        ) from error
    except failures() as error:
        raise ValueError(
            f"importing {place} failed at {where_in(error, None)}: {told(error)}"
        ) from error


def _loaded(path: Path) -> ModuleType:
    """The module of a file; run once for each content, as an import would."""
    state = path.stat()
    key = hashlib.sha256(f"{path}|{state.st_mtime_ns}|{state.st_size}".encode()).hexdigest()[:12]
    module_name = f"brought_{path.stem}_{key}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    # Registered first: dataclasses and Triton look their module up while the file runs.
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except failures() as error:
        del sys.modules[module_name]
        raise ValueError(
            f"importing {path} failed at {where_in(error, path)}: {told(error)}"
        ) from error
    return module


def _attribute(module: ModuleType, attribute: str, place: str) -> Any:
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            names = [n for n, value in vars(found).items() if callable(value) and n[0] != "_"]
            raise ValueError(f'{place} has no "{part}"{_did_you_mean(part, names)}')
        found = getattr(found, part)
    return found


def _instead(place: str) -> str:
    """What to write in place of a file without a function: it is read for that, not run."""
    if not place.endswith(".py"):
        return _FORM
    path = _existing(place)
    try:
        lines = ast.parse(path.read_bytes(), filename=path).body
    except (SyntaxError, ValueError) as error:
        return f"{told(error)}; {_FORM}"
    names = [n.name for n in lines if isinstance(n, ast.FunctionDef) and n.name[0] != "_"]
    if not names:
        return _FORM
    likely = "attention" if "attention" in names else names[-1]
    return f'it has {", ".join(names[:8])}; write "{place}:{likely}"'


def _did_you_mean(wrong: str, known: list[str]) -> str:
    close = difflib.get_close_matches(wrong, known, n=1)
    if close:
        return f': did you mean "{close[0]}"?'
    return f": it has {', '.join(sorted(known)[:8])}" if known else ""
