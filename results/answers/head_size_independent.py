"""Head size on its own: what the narrowest and the widest d_h take, and what is due to them."""

from __future__ import annotations

from results.finding import Finding, finding
from results.ladder import Ladder, ladders, longest
from results.phrases import DTYPE_NAMES
from results.run import Run
from results.schema import Cell

SUITE = "head_size_independent"
USUAL_D_H = 128


def answer(run: Run) -> Finding | None:
    """Time and FLOP at both ends of d_h over those at 128, for core and layer; who refuses."""
    found = ladders(run, SUITE, lambda problem: problem.d_h)
    told: list[str] = []
    cells: list[Cell] = []
    for series in dict.fromkeys(one.series for one in found):
        line = longest([one for one in found if one.series == series], USUAL_D_H)
        if line is not None and (words := _told(line, _refused(run, series, line.sizes[-1]))):
            told.append(words)
            cells += line.cells(USUAL_D_H, *_ends(line))
    if not told:
        return None
    return finding(f"The {'; the '.join(told)}.", cells)


def _told(line: Ladder, refused: str) -> str:
    base, problem = line.cell(USUAL_D_H), line.cell(USUAL_D_H).problem
    part = "core" if problem.around is None else "layer"
    words = []
    for d_h in _ends(line):
        times, due = line.times(d_h, USUAL_D_H), _flop(line.cell(d_h)) / _flop(base)
        if times is not None:
            words.append(f"{times:.2f} × as long at d_h {d_h:.0f}, for {due:.3g} × the FLOP")
    if not words:
        return ""
    sizes = f"T = {problem.T_q}, H {problem.H}, {DTYPE_NAMES[problem.dtype]}"
    return (
        f"{part} with {line.implementation} takes {', and '.join(words)} of d_h {USUAL_D_H} "
        f"({sizes}, {line.certainty(USUAL_D_H)}{refused})"
    )


def _ends(line: Ladder) -> list[float]:
    ends = dict.fromkeys((line.sizes[-1], line.sizes[0]))
    return [d_h for d_h in ends if d_h != USUAL_D_H]


def _flop(cell: Cell) -> int:
    assert cell.counts is not None
    return cell.counts.flop


def _refused(run: Run, series: str, widest: float) -> str:
    """Who has a time in this series and refuses its widest heads, by name."""
    mine = [cell for cell in run.cells if cell.suite == SUITE and cell.series == series]
    able = {cell.implementation for cell in mine if cell.timing}
    at_the_end = [cell for cell in mine if cell.problem.d_h == widest]
    refused = {cell.implementation for cell in at_the_end if cell.status == "unsupported"}
    names = sorted(refused & able)
    return f"; {widest:.0f} is refused by {', '.join(names)}" if names else ""
