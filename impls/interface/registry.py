"""Where implementations are found: the folder `impls/`, entry points, and strings a user gives."""

from __future__ import annotations

import importlib
import importlib.metadata
import pkgutil
from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType

import impls
from impls.interface.attention import Implementation
from impls.interface.brought import bring

ENTRY_POINT_GROUP = "attnbench.impls"
_NOT_IMPLEMENTATIONS = ("interface", "layer", "__main__")
# Where the implementations of other operators than softmax attention are declared.
_OTHER_OPERATORS = "layer"


def implementations(brought: Sequence[str] = ()) -> dict[str, Implementation]:
    """Every implementation by name: ours, those of entry points, and those `brought`.

    A brought string is `package.module:function` or `path/to/file.py:function`. Nothing here is
    imported from an optional library; an implementation that needs one says so when asked.

    Raises:
        ValueError: two places declare one name (both are told), or a string names nothing.
    """
    found: dict[str, Implementation] = {}
    for implementation in (*_declared_here(), *_from_entry_points(), *map(bring, brought)):
        other = found.get(implementation.name)
        if other is not None:
            raise ValueError(
                f'two implementations are called "{implementation.name}": '
                f"{other.source} and {implementation.source}; rename a file or a function"
            )
        found[implementation.name] = implementation
    return found


def select(names: Sequence[str], brought: Sequence[str] = ()) -> dict[str, Implementation]:
    """The implementations with these names (all when empty) and the brought ones.

    Raises:
        ValueError: a name is unknown; the message offers close names and lists all.
    """
    import difflib

    known = implementations(brought)
    if not names and not brought:
        return known
    extra = set(known) - set(implementations()) if brought else set()
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f'did you mean "{close[0]}"? ' if close else ""
            raise ValueError(f'no implementation "{name}": {hint}known: {", ".join(known)}')
    return {name: known[name] for name in known if name in names or name in extra}


def _declared_here() -> list[Implementation]:
    package = importlib.import_module(f"impls.{_OTHER_OPERATORS}")
    return [*_declared_in(impls), *_declared_in(package)]


def _declared_in(package: ModuleType) -> list[Implementation]:
    """The module-level constants of a folder's modules, in the modules' order."""
    found = []
    for module_info in pkgutil.iter_modules(package.__path__):
        if package is impls and module_info.name in _NOT_IMPLEMENTATIONS:
            continue
        name = f"{package.__name__}.{module_info.name}"
        source = name.replace(".", "/") + ("" if module_info.ispkg else ".py")
        found += [
            replace(value, source=source)
            for value in vars(importlib.import_module(name)).values()
            if isinstance(value, Implementation)
        ]
    return found


def _from_entry_points() -> list[Implementation]:
    return [
        bring(point.value, name=point.name)
        for point in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
    ]
