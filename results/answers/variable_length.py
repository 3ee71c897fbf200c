"""Variable lengths: the time of padding to the longest over that of packing, as lengths spread."""

from __future__ import annotations

from impls.interface.problem import Problem
from results.finding import Finding, finding
from results.ladder import Ladder, ladders
from results.phrases import DTYPE_NAMES
from results.run import Run
from results.schema import Cell
from results.units import digits, time_text

SUITE = "variable_length"
PADS = "_padded"
"""How the names end of those that pad; all others pack."""
FULL = 100.0


def answer(run: Run) -> Finding | None:
    """The fastest that pads beside the fastest that packs, of the fullest and emptiest batch.

    Of one series, full where there is one; equal sizes of it are of the same tokens.
    """
    found = ladders(run, SUITE, _filled_percent)
    named = dict.fromkeys(one.series for one in found)
    for series in sorted(named, key=lambda text: "causal" in text):
        lines = [one for one in found if one.series == series]
        if told := _told(lines, run):
            return told
    return None


def _told(lines: list[Ladder], run: Run) -> Finding | None:
    padded = [one for one in lines if one.implementation.endswith(PADS)]
    packed = [one for one in lines if not one.implementation.endswith(PADS)]
    sizes = sorted(
        {size for one in padded for size in one.sizes}
        & {size for one in packed for size in one.sizes},
        reverse=True,
    )
    if not sizes:
        return None
    words, cells = [], []
    for size in dict.fromkeys((sizes[0], sizes[-1])):
        pads, packs = (_fastest(each, size) for each in (padded, packed))
        words.append(_ratio(pads, packs, size))
        cells += [*pads.cells(size), *packs.cells(size)]
    p = cells[0].problem
    mask = "causal" if p.causal else "full"
    sentence = (
        f"Of the same {p.joined.T_q} tokens in {p.B} sequences ({mask}, H {p.H}, d_h {p.d_h}, "
        f"{DTYPE_NAMES[p.dtype]}) padding to the longest takes {'; '.join(words)}"
        f"{_bounds(cells)} ({_certainty(run)})."
    )
    return finding(sentence, cells)


def _fastest(lines: list[Ladder], size: float) -> Ladder:
    return min((one for one in lines if size in one.rungs), key=lambda one: one.time_s(size))


def _ratio(pads: Ladder, packs: Ladder, size: float) -> str:
    """ "6.10 × the time of packing where 21 % is filled (sdpa_padded 9 ms, sdpa_flash 2 ms)"."""
    ratio = digits(pads.time_s(size) / packs.time_s(size))
    lengths = "all are equally long" if size == FULL else f"{size:.0f} % of it is then filled"
    times = ", ".join(f"{o.implementation} {time_text(o.time_s(size))}" for o in (pads, packs))
    return f"{ratio} × the time of packing where {lengths} ({times})"


def _bounds(cells: list[Cell]) -> str:
    """What is left of the bound of the one that pads; "" where none was measured."""
    shares = [c.percent_of_bound for c in cells if c.implementation.endswith(PADS)]
    known = [share for share in shares if share is not None]
    return f", {known[-1]:.0f} % of its bound" if known else ""


def _certainty(run: Run) -> str:
    return "1 launch" if run.launches == 1 else f"medians of {run.launches} launches"


def _filled_percent(problem: Problem) -> float:
    return FULL * problem.filled
