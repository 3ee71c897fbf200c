"""Decoding more at once: what further queries, sequences and a longer cache take."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from impls.interface.cost import kv_cache_bytes
from impls.interface.problem import Problem
from results.finding import Finding, finding
from results.ladder import Ladder, ladders, longest
from results.phrases import DTYPE_NAMES
from results.run import Run
from results.schema import Cell
from results.units import digits, si_text

SUITE = "decode"


def answer(run: Run) -> Finding | None:
    """The most queries and sequences beside the fewest, and the longest cache by the shortest."""
    told: list[str] = []
    cells: list[Cell] = []
    for size, words in _ASKED:
        if (line := _line(run, size)) is not None:
            told.append(f"{line.implementation} {words(line)} ({line.certainty(line.sizes[-1])})")
            cells += line.cells(line.sizes[0], line.sizes[-1])
    if not told:
        return None
    p = cells[0].problem
    heads = f"H {p.H}, d_h {p.d_h}, {DTYPE_NAMES[p.dtype]}"
    return finding(f"Decoding more at once ({heads}): {'; '.join(told)}.", cells)


def _line(run: Run, size: Callable[[Problem], int]) -> Ladder | None:
    """Who was measured at the most sizes from the least one on; of several the fastest there."""
    found = [one for one in ladders(run, SUITE, size) if len(one.rungs) > 1]
    return longest(found, min((one.sizes[0] for one in found), default=0))


def _queries(line: Ladder) -> str:
    return _as_long(line, "queries")


def _sequences(line: Ladder) -> str:
    fewest, most = (si_text(_rate(line, B), "B/s") for B in (line.sizes[0], line.sizes[-1]))
    return f"{_as_long(line, 'sequences')}, reading at {most} against {fewest}"


def _caches(line: Ladder) -> str:
    of_each = [
        f"{_cache_text(line.cell(T_kv).problem)} (T_kv = {T_kv:.0f}) at "
        f"{si_text(_rate(line, T_kv), 'B/s')}"
        for T_kv in (line.sizes[0], line.sizes[-1])
    ]
    return f"reads a cache of {' and one of '.join(of_each)}"


_ASKED: tuple[tuple[Callable[[Problem], int], Callable[[Ladder], str]], ...] = (
    (lambda p: p.T_q, _queries),
    (lambda p: p.B, _sequences),
    (lambda p: p.T_kv, _caches),
)


def _as_long(line: Ladder, what: str) -> str:
    """ "takes 2.10 × as long for 16 queries as for 1 at T_kv = 2048, H_kv 8"."""
    fewest, most = line.sizes[0], line.sizes[-1]
    p = line.cell(most).problem
    return (
        f"takes {digits(line.time_s(most) / line.time_s(fewest))} × as long for {most:.0f} {what} "
        f"as for {fewest:.0f} at T_kv = {p.T_kv}, H_kv {p.H_kv}"
    )


def _rate(line: Ladder, size: float) -> float:
    return median(cell.bytes_per_s or 0.0 for cell in line.cells(size))


def _cache_text(p: Problem) -> str:
    one = kv_cache_bytes(L=1, T=p.T_kv, H_kv=p.H_kv, d_h=p.d_h, dtype=p.dtype, B=p.B)
    return si_text(one, "B")
