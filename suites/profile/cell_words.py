"""Which cell the words of a command line mean: one written out, one of a sweep or of a run."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import suites
from impls.interface.attention import Implementation
from impls.interface.named_object import is_of_an_object
from impls.interface.problem import DTYPES, PASSES, Problem
from impls.interface.registry import implementations, select
from suites.measure.clocks import CACHES, CLOCKS, clock_for
from suites.profile.command import NO_CELL
from suites.session.options import store_folder
from suites.session.resume import resume
from suites.session.sweep import Cell, Series, cells

_SHOWN, _NEAR = 12, 3
_LEAST_OF_ID = 6


@dataclass(frozen=True)
class Asked:
    """What was typed: words, options as `pytest suites` has them, and where cells are found."""

    words: tuple[str, ...] = ()
    impls: tuple[str, ...] = ()
    problem: str = ""
    passes: str = ""
    run: str | None = None
    store: str | None = None
    device: str = "cpu"
    threads: int = 1


def find_cell(asked: Asked) -> Cell:
    """The one cell that was meant; options are words too.

    Words are those of `reports explain`: names of implementation and sweep, sizes, full or causal,
    dtype, pass, the beginning of a cell's identity. An implementation with a whole problem is that
    cell, whether a sweep has it or not. Unless words say otherwise, the dtype is the device's usual
    one and the pass the sweep's own.

    Raises:
        ValueError: no cell has all of the words, or several have; the message lists near ones.
    """
    if asked.run is not None:
        return _timed_as(_only(_of_run(asked), _words(asked), f"run {asked.run}"), asked)
    known = implementations(_brought(asked))
    words, wrong = _words(asked), ""
    try:
        if (cell := _written_out(words, known, asked)) is not None:
            return cell
    except ValueError as error:
        if asked.problem:
            raise
        wrong = f" ({error})"
    return _only(list(_of_sweeps(words, known, asked)), words, "a sweep", wrong)


def name_of(cell: Cell) -> str:
    """The cell as `suites ab` and `reports explain` write it."""
    return f"{cell.implementation.name} {cell.problem.id} {cell.pass_} {cell.cache} {cell.clock}"


def _words(asked: Asked) -> list[str]:
    """All that was typed as words, once each."""
    chosen: list[str] = []
    if asked.impls:
        chosen = list(select([n for n in asked.impls if not is_of_an_object(n)], _brought(asked)))
    if len(chosen) > 1:
        raise ValueError(f"--impl {','.join(chosen)}: give one, as a profile is of one cell")
    typed = " ".join([*chosen, *asked.words, asked.problem, asked.passes])
    words = list(dict.fromkeys(typed.replace(",", " ").split()))
    if not words:
        raise ValueError(NO_CELL)
    return words


def _brought(asked: Asked) -> tuple[str, ...]:
    return tuple(filter(is_of_an_object, asked.impls))


def _written_out(
    words: Sequence[str], known: Mapping[str, Implementation], asked: Asked
) -> Cell | None:
    """The cell of one implementation and a whole problem; None where something is left out.

    Raises:
        ValueError: there are sizes, and they are no problem, or words of something else are among
            them.
    """
    names = [word for word in words if word in known]
    rest = [word for word in words if word not in {*names, *PASSES, *CACHES, *CLOCKS}]
    sizes = {word.partition("=")[0] for word in rest if "=" in word}
    is_whole = {"H", "d_h"} <= sizes and ("T" in sizes or {"T_q", "T_kv"} <= sizes)
    if not (is_whole or asked.problem):
        return None
    if len(names) != 1:
        raise ValueError("a problem needs one implementation: add --impl NAME")
    defaults = {"dtype": _usual_dtype(asked.device)}
    problem = Problem.parse(",".join(rest), **defaults)
    if problem.is_empty:
        raise ValueError(f'"{problem.id}" is an empty problem: there is nothing to profile')
    series = [Series("given", (problem,))]
    found = _cells("given", series, [known[names[0]]], words, asked, ("forward",))
    return _only(found, (), "")


def _of_sweeps(
    words: Sequence[str], known: Mapping[str, Implementation], asked: Asked
) -> Iterator[Cell]:
    """The cells of every sweep, whatever the budget, of the implementations that were named."""
    named = [known[word] for word in words if word in known]
    dtypes = [word for word in words if word in DTYPES]
    for module in _sweeps():
        usual = getattr(module, "CPU_DTYPES", ("float32",)) if asked.device == "cpu" else ()
        passes = getattr(module, "PASSES", ("forward",))
        for dtype in dtypes or [*usual[:1]] or [_usual_dtype(asked.device)]:
            series = [
                replace(line, implementations=None) if named else line
                for line in module.series(asked.device, dtype)
            ]
            of = named or list(known.values())
            found = _cells(module.AXIS, series, of, words, asked, passes)
            # A sweep of several operators measures none on another's problem.
            yield from (c for c in found if c.implementation.operator == c.problem.operator)


def _sweeps() -> list[Any]:
    names = [one.name for one in pkgutil.iter_modules(suites.__path__)]
    return [importlib.import_module(f"suites.{n}") for n in names if n.startswith("bench_")]


def _cells(
    axis: str,
    series: Sequence[Series],
    of: Sequence[Implementation],
    words: Sequence[str],
    asked: Asked,
    passes: Sequence[str],
) -> list[Cell]:
    caches = [word for word in words if word in CACHES]
    usual = "cold" if asked.device == "cuda" else "hot"
    return cells(
        axis,
        series,
        of,
        passes=[word for word in words if word in PASSES] or passes,
        cache=caches[0] if caches else usual,
        device=asked.device,
        threads=asked.threads,
    )


def _usual_dtype(device: str) -> str:
    return "bfloat16" if device == "cuda" else "float32"


def _of_run(asked: Asked) -> list[Cell]:
    """The cells of a run's plan, measured or not, of the implementations that are here."""
    resumed = resume(store_folder(asked.store), str(asked.run))
    known = implementations(resumed.brought)
    plan = [entry for entry in resumed.header["plan"] if entry["implementation"] in known]
    header = {**resumed.header, "plan": plan}
    whole = replace(resumed, header=header, done=frozenset(), crashed=None)
    suites_of = dict.fromkeys(entry["suite"] for entry in plan)
    return [cell for suite in suites_of for cell in whole.cells(suite, known)]


def _timed_as(cell: Cell, asked: Asked) -> Cell:
    """A run of another device or of more threads has another clock."""
    synchronize = cell.implementation.synchronize
    return replace(cell, clock=clock_for(asked.device, asked.threads, synchronize))


def _only(found: Sequence[Cell], words: Sequence[str], where: str, wrong: str = "") -> Cell:
    """The one of these cells that has all of the words."""
    own = [(cell, _own(cell)) for cell in found]
    having = {c.key: c for c, o in own if all(_has(c, o, word) for word in words)}
    if len(having) == 1:
        return next(iter(having.values()))
    text = " ".join(words)
    if having:
        lines = [f"  {key}  {name_of(cell)}" for key, cell in list(having.items())[:_SHOWN]]
        lines += [f"  and {len(having) - _SHOWN} more"] if len(having) > _SHOWN else []
        told = "\n".join(lines)
        raise ValueError(f'{len(having)} cells have "{text}": add a word, or take an id\n{told}')
    raise ValueError(f'no cell of {where} has "{text}"{wrong}{_near(own, words)}')


def _own(cell: Cell) -> set[str]:
    words = {*name_of(cell).replace(",", " ").split(), cell.suite}
    return words if cell.problem.causal else words | {"full"}


def _has(cell: Cell, own: set[str], word: str) -> bool:
    return word in own or (len(word) >= _LEAST_OF_ID and cell.key.startswith(word))


def _near(own: Sequence[tuple[Cell, set[str]]], words: Sequence[str]) -> str:
    """What may have been meant: a word nearly as typed, else the cells with most of the words."""
    every = {word for _, of_one in own for word in of_one}
    for word in words:
        close = difflib.get_close_matches(word, sorted(every), n=1)
        if word not in every and close:
            return f': for "{word}" did you mean "{close[0]}"?'
    ranked = sorted(own, key=lambda one: -sum(word in one[1] for word in words))
    names = dict.fromkeys(name_of(cell) for cell, _ in ranked[: 10 * _NEAR])
    return "".join(f"\n  near: {name}" for name in list(names)[:_NEAR])
