"""Head count: what 1 or 32 heads take beside the paper's 8, and what they were worth there."""

from __future__ import annotations

from results.finding import Finding, finding
from results.ladder import Ladder, ladders, longest
from results.phrases import DTYPE_NAMES
from results.published import D_MODEL, HEAD_COUNTS
from results.run import Run
from results.schema import Cell
from results.units import time_text

SUITE = "head_count"
PAPERS_H = 8


def answer(run: Run) -> Finding | None:
    """Core and layer with the fewest and the most heads over the paper's; its perplexities."""
    told, cells, heads = [], [], set()
    for part in ("core", "layer"):
        every = [one for one in ladders(run, SUITE, lambda p: p.H) if one.series.endswith(part)]
        if (found := longest(every, PAPERS_H)) is not None:
            words, shown, ends = _told(found, part)
            told.append(words)
            cells += shown
            heads |= ends
    if not told:
        return None
    cell = cells[0]
    known = [q for q in HEAD_COUNTS if q.H in heads]
    worth = f"perplexities {_listed([f'{q.perplexity:.2f}' for q in known])}"
    worth += f" with H = {_listed([str(q.H) for q in known])} (lower is better)"
    sizes = f"T = {cell.problem.T_q}, {DTYPE_NAMES[cell.problem.dtype]}"
    sentence = f"At d_model {D_MODEL} ({sizes}) {'; '.join(told)}; the paper's models had {worth}."
    return finding(sentence, cells)


def _listed(words: list[str]) -> str:
    """Words with commas between them and "and" before the last."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _told(found: Ladder, part: str) -> tuple[str, list[Cell], set[float]]:
    """One part's sentence, its cells and the H it names."""
    ends = [H for H in dict.fromkeys((found.sizes[0], found.sizes[-1])) if H != PAPERS_H]
    ratios = {H: times for H in ends if (times := found.times(H, PAPERS_H)) is not None}
    others = " and ".join(f"{times:.2f} × that with {H:.0f}" for H, times in ratios.items())
    words = (
        f"the {part} with {found.implementation} takes {time_text(found.time_s(PAPERS_H))} with "
        f"{PAPERS_H} heads, {others} ({found.certainty(PAPERS_H)})"
    )
    return words, found.cells(PAPERS_H, *ratios), {PAPERS_H, *ratios}
