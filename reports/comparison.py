"""Runs side by side: the first is the base, and every other is set against it cell by cell."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from reports.style import plural
from results.compare import Asked, compare
from results.run import Run
from results.schema import Cell
from results.side import NOT_MEASURED, key_of, side
from results.verdict import BROKEN, NOT_COMPARABLE, PASS, Comparison, Verdict
from results.verdict_text import change_text, interval_text

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MOST_RUNS = len(LETTERS)


@dataclass(frozen=True)
class Compared:
    """A base and what stands against it, `comparisons` in the order of `heads`."""

    base: Run
    heads: tuple[Run, ...]
    comparisons: tuple[Comparison, ...]

    @property
    def runs(self) -> tuple[Run, ...]:
        """All runs, the base first."""
        return (self.base, *self.heads)

    @property
    def code(self) -> int:
        """The exit code: 0, 4 where a run cannot be compared, 5 where nothing was."""
        if any(reason.severity == "blocking" for c in self.comparisons for reason in c.reasons):
            return NOT_COMPARABLE
        return PASS if all(c.compared for c in self.comparisons) else BROKEN

    @cached_property
    def cells(self) -> dict[str, Cell]:
        """A row of each cell by its name in the verdicts, the base's where it has one."""
        found: dict[str, Cell] = {}
        for run in self.runs:
            for cell in run.cells:
                found.setdefault(" ".join(key_of(cell)), cell)
        return found

    @property
    def implementations(self) -> list[str]:
        """All that anything was said of."""
        return sorted({self.cells[name].implementation for name in self.by_name})

    @cached_property
    def by_name(self) -> dict[str, tuple[Verdict | None, ...]]:
        """The verdicts of each cell, one for each head; the worst of the first head first."""
        maps = [{one.name: one for one in c.verdicts} for c in self.comparisons]
        names = dict.fromkeys(one.name for c in self.comparisons for one in c.verdicts)
        return {name: tuple(found.get(name) for found in maps) for name in names}


def compared(runs: Sequence[Run], allow: Collection[str] = ()) -> Compared:
    """The first run and the others against it."""
    base, *heads = runs
    before = side(base.name, [base])
    found = [compare(before, side(head.name, [head]), Asked(allow=allow)) for head in heads]
    return Compared(base, tuple(heads), tuple(found))


Told = tuple[str, tuple[str, ...]]


def sentences(found: Compared) -> list[Told]:
    """What the comparison bears out, and the names of the cells each sentence stands on."""
    told: list[Told] = []
    for letter, comparison in zip(LETTERS[1:], found.comparisons, strict=False):
        told += _of_one(letter, comparison)
        told += _left_out(letter, comparison, found.cells)
    for letter, run in zip(LETTERS, found.runs, strict=False):
        if run.state != "finished":
            told.append((f"{letter} is {run.state}: what it has so far is compared.", ()))
    return told


def _of_one(letter: str, comparison: Comparison) -> list[Told]:
    known = [one for one in comparison.verdicts if one.ratio]
    if not known:
        reasons = "; ".join(r.text for r in comparison.reasons if r.severity == "blocking")
        why = f"the runs cannot be compared: {reasons}" if reasons else "no cell was timed in both"
        return [(f"{letter} against A: {why}.", ())]
    told = []
    mean = math.exp(sum(math.log(one.ratio or 1.0) for one in known) / len(known))
    low, high = (sorted(known, key=lambda one: one.ratio or 1.0)[i] for i in (0, -1))
    launches = min(comparison.base_launches, comparison.head_launches)
    told.append(
        (
            f"Over {plural(len(known), 'cell')} that both timed without a flag, {letter} takes "
            f"{mean:.3f} × the time of A (geometric mean; {low.ratio:.2f} to {high.ratio:.2f}, "
            f"{plural(launches, 'launch') if launches == 1 else f'{launches} launches'}).",
            (),
        )
    )
    told += _proven(letter, comparison)
    if launches == 1:
        ends = [high] if high is low else [high, low]
        most = " and ".join(f"{change_text(one.ratio)} at {one.name}" for one in ends)
        names = tuple(one.name for one in ends)
        told.append((f"One launch a side proves no difference: most is {most}.", names))
    return told


def _left_out(letter: str, comparison: Comparison, cells: Mapping[str, Cell]) -> list[Told]:
    """What is in no mean, counted, and of what broke on either side the first with its reason."""
    left = [one for one in comparison.verdicts if not one.ratio]
    if not left:
        return []
    counted = Counter(one.verdict for one in left)
    kinds = ", ".join(f"{counted[kind]} {kind}" for kind in sorted(counted))
    told: list[Told] = [(f"{plural(len(left), 'cell')} of {letter} in no mean: {kinds}.", ())]
    broken = [one for one in left if one.verdict == "broken"]
    if broken:
        first = f"{broken[0].name}: {'; '.join(broken[0].reasons)}"
        names = tuple(one.name for one in broken)
        told.append((f"{plural(len(broken), 'cell')} of {letter} broke, first {first}.", names))
    base = [one for one in left if one.verdict == "incomparable" and cells[one.name].reasons]
    skipped = [one for one in base if cells[one.name].status in NOT_MEASURED]
    broke = [one for one in base if one not in skipped]
    for word, those in (("were not measured", skipped), ("broke", broke)):
        if those:
            cell = cells[those[0].name]
            first = f"{those[0].name}: {cell.status}, {'; '.join(cell.reasons)}"
            names = tuple(one.name for one in those)
            if len(those) == 1:
                word = word.replace("were", "was")
            told.append((f"{plural(len(those), 'cell')} of A {word}, first {first}.", names))
    return told


def _proven(letter: str, comparison: Comparison) -> list[Told]:
    told = []
    for verdict, word in (("regressed", "slower"), ("improved", "faster")):
        those = [one for one in comparison.verdicts if one.verdict == verdict and one.ratio]
        if those:
            worst = max(those, key=lambda one: abs(math.log(one.ratio or 1.0)))
            told.append(
                (
                    f"{plural(len(those), 'cell')} of {letter} {word} beyond doubt, most "
                    f"{worst.name}: {change_text(worst.ratio)} ({interval_text(worst)}).",
                    tuple(one.name for one in those),
                )
            )
    return told
