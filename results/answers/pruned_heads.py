"""Pruned heads: the time of a layer that keeps half, or a quarter, of its heads."""

from __future__ import annotations

from impls.interface.problem import Problem
from results.finding import Finding, finding
from results.ladder import ladders, longest
from results.phrases import DTYPE_NAMES
from results.run import Run

SUITE = "pruned_heads"
WHOLE = 100.0
TELLING = (50.0, 25.0)


def answer(run: Run) -> Finding | None:
    """The share of the whole layer's time that is left with the shares of heads kept."""
    found = ladders(run, SUITE, _kept_percent)
    told, cells = [], []
    for series in dict.fromkeys(one.series for one in found):
        line = longest([one for one in found if one.series == series], WHOLE)
        if line is None:
            continue
        shares = [kept for kept in TELLING if kept in line.rungs] or line.sizes[:1]
        ratios = {kept: times for kept in shares if (times := line.times(kept, WHOLE)) is not None}
        if not ratios:
            continue
        left = " and ".join(f"{times:.2f} with {kept:.3g} %" for kept, times in ratios.items())
        left += " of its heads"
        phase = "decode" if line.cell(WHOLE).problem.T_q == 1 else "prefill"
        told.append(f"{left} in {phase} ({line.implementation}, {line.certainty(WHOLE)})")
        cells += line.cells(WHOLE, *ratios)
    if not told:
        return None
    p = cells[0].problem
    sizes = f"{p.H} heads, d_h {p.d_h}, {DTYPE_NAMES[p.dtype]}"
    return finding(f"Of a layer's time ({sizes}) pruning leaves {'; '.join(told)}.", cells)


def _kept_percent(problem: Problem) -> float:
    """The share of its heads that a pruned layer has left: H·d_h was d_model."""
    if problem.around is None:
        return WHOLE
    return WHOLE * problem.H * problem.d_h / problem.around.shape.d_model
