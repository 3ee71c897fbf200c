"""Decoding: whom fewer kv heads make faster, and at which rate the cache is then read."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median

from results.finding import Finding, finding
from results.phrases import DTYPE_NAMES
from results.run import Run
from results.schema import Cell
from results.units import digits, si_text, time_text

SUITE = "decode"
# Times that differ by less are told as the same.
SAME = 1.1


@dataclass(frozen=True)
class _Saving:
    """One implementation with every query head's own kv head, and with fewer: over launches."""

    every: tuple[Cell, ...]
    fewer: tuple[Cell, ...]

    @property
    def times(self) -> float:
        """How many times as fast fewer heads are."""
        return _median_s(self.every) / _median_s(self.fewer)

    def words(self, *, tells_heads: bool) -> str:
        """What fewer heads do to its time, both times in brackets."""
        few, many = self.fewer[0].problem.H_kv, self.every[0].problem.H_kv
        heads = f" kv head{'' if few == 1 else 's'}" if tells_heads else ""
        than = f"with {few}{heads} as with {many}"
        few_s, many_s = time_text(_median_s(self.fewer)), time_text(_median_s(self.every))
        name = self.fewer[0].implementation
        if self.times > SAME:
            return f"{name} is {digits(self.times)} × as fast {than} ({few_s} against {many_s})"
        longer = "" if self.times >= 1 / SAME else f"{digits(1 / self.times)} × "
        return f"{name} takes {longer}as long {than} ({few_s} and {many_s})"


def answer(run: Run) -> Finding | None:
    """The fastest with fewer kv heads, beside the fastest of those who gain nothing by them."""
    contests = _contests(run)
    if not contests:
        return None
    savings = contests[max(contests, key=lambda setting: _telling(setting, contests[setting]))]
    gainer = min(savings, key=lambda saving: _median_s(saving.fewer))
    others = [saving for saving in savings if saving is not gainer]
    cell, launches = gainer.fewer[0], len(gainer.fewer)
    rate = median(c.bytes_per_s or 0.0 for c in gainer.fewer)
    reads = f", reading its cache at {si_text(rate, 'B/s')}"
    if (percent := cell.percent_of_bound) is not None:
        reads += f", {percent:.0f} % of its bound"
    if others:
        # Who is merely slower and gains as well tells less than who gains nothing.
        rival = min(others, key=lambda saving: (saving.times > SAME, _median_s(saving.fewer)))
        is_behind = rival.times < gainer.times / SAME
        told = f"{rival.words(tells_heads=True)}, {'while' if is_behind else 'and'} "
        told += gainer.words(tells_heads=False)
        ratio = digits(_median_s(rival.fewer) / _median_s(gainer.fewer))
        reads += f", {ratio} × the rate of {rival.fewer[0].implementation}"
        shown = (rival, gainer)
    else:
        told, shown = gainer.words(tells_heads=True), (gainer,)
    p = cell.problem
    sizes = f"B {p.B}, H {p.H}, d_h {p.d_h}, {DTYPE_NAMES[p.dtype]}"
    certainty = "1 launch" if launches == 1 else f"median of {launches} launches"
    sentence = f"Decoding at T_kv = {p.T_kv} ({sizes}), {told}{reads} ({certainty})."
    return finding(sentence, [c for saving in shown for c in (*saving.every, *saving.fewer)])


_Setting = tuple[str, int, str, str]


def _contests(run: Run) -> dict[_Setting, list[_Saving]]:
    """By the problem with fewer heads, cache and clock: who has both, launch by launch."""
    steps = [c for c in run.trusted_cells if c.suite == SUITE and c.problem.T_q == 1]
    whole = {_same(c, c.problem): c for c in steps if c.problem.H_kv == c.problem.H > 1}
    # By launch: two series may have measured the same step.
    pairs: dict[tuple[_Setting, str], dict[int, tuple[Cell, Cell]]] = defaultdict(dict)
    for cell in steps:
        p = cell.problem
        every = whole.get(_same(cell, p.with_(H_kv=p.H)))
        if every is not None and p.H_kv < p.H:
            setting = (p.id, p.H // p.H_kv, cell.cache, cell.clock)
            pairs[setting, cell.implementation][cell.launch] = (every, cell)
    contests: dict[_Setting, list[_Saving]] = defaultdict(list)
    for (setting, _), both in pairs.items():
        every, fewer = zip(*both.values(), strict=True)
        contests[setting].append(_Saving(tuple(every), tuple(fewer)))
    return contests


def _same(cell: Cell, problem: object) -> tuple:
    return (cell.implementation, str(problem), cell.pass_, cell.cache, cell.clock, cell.launch)


def _telling(setting: _Setting, savings: list[_Saving]) -> tuple:
    """The most implementations; then 16 bits, groups of 4 as many models have, the longest."""
    problem = savings[0].fewer[0].problem
    return (len(savings), problem.dtype != "float32", -abs(setting[1] - 4), problem.T_kv)


def _median_s(cells: tuple[Cell, ...]) -> float:
    return median(cell.time_s or 0.0 for cell in cells)
