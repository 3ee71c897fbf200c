"""What other operators than softmax attention cost beside it along T, and which overtake it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from impls.interface.problem import SOFTMAX
from results.finding import Finding, finding
from results.phrases import where
from results.run import Run
from results.schema import Cell
from results.units import digits, time_text

SUITE = "lineage"


@dataclass(frozen=True)
class Taken:
    """The cells, over launches, of the implementation that takes least time for one operator."""

    cells: tuple[Cell, ...]

    @property
    def name(self) -> str:
        """The implementation's name."""
        return self.cells[0].implementation

    @property
    def time_s(self) -> float:
        """The median of its launches."""
        return median(cell.time_s or 0.0 for cell in self.cells)


Lengths = dict[int, Taken]


def answer(run: Run) -> Finding | None:
    """From which T an operator overtakes the softmax core, and what the others cost beside it."""
    sweeps = by_operator(run.trusted_cells)
    masks = [is_causal for is_causal in (False, True) if (SOFTMAX, is_causal) in sweeps]
    names = dict.fromkeys(operator for operator, _ in sweeps if operator != SOFTMAX)
    if not masks or not names:
        return None
    overtaking: list[str] = []
    costs: list[str] = []
    stands_on: list[Cell] = []
    for name in names:
        pairs = {m: (sweeps[name, m], sweeps[SOFTMAX, m]) for m in masks if (name, m) in sweeps}
        if words := _overtaking(pairs):
            overtaking.append(f"{name} {words}")
        elif words := _cost(pairs, run):
            costs.append(f"{name} {words}")
        for operator, core in pairs.values():
            stands_on += [c for T in both(operator, core) for c in operator[T].cells]
            stands_on += [c for T in both(operator, core) for c in core[T].cells]
    if not overtaking and not costs:
        return None
    told = "; ".join([*overtaking, *costs])
    launches = "1 launch" if run.launches == 1 else f"medians of {run.launches} launches"
    sentence = f"Costs of other operators, no ranking: {told} ({launches})."
    return finding(sentence, stands_on)


def by_operator(cells: Iterable[Cell]) -> dict[tuple[str, bool], Lengths]:
    """The sweep's least times by (operator, causal) and T, in the dtype with the most cells."""
    mine = [c for c in cells if c.suite == SUITE and c.problem.T_q == c.problem.T_kv and c.time_s]
    counted: dict[tuple[str, str], int] = defaultdict(int)
    for cell in mine:
        counted[cell.problem.dtype, cell.pass_] += 1
    most = max(counted, key=lambda key: counted[key], default=None)
    groups: dict[tuple[str, bool, int], dict[str, list[Cell]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for cell in mine:
        p = cell.problem
        if (p.dtype, cell.pass_) == most:
            groups[p.operator, p.causal, p.T_q][cell.implementation].append(cell)
    found: dict[tuple[str, bool], Lengths] = defaultdict(dict)
    for (operator, is_causal, T), rivals in groups.items():
        taken = [Taken(tuple(launches)) for launches in rivals.values()]
        found[operator, is_causal][T] = min(taken, key=lambda one: one.time_s)
    return dict(found)


def both(operator: Lengths, core: Lengths) -> list[int]:
    """The lengths at which both were measured, rising."""
    return sorted(operator.keys() & core.keys())


def overtakes_from(operator: Lengths, core: Lengths) -> int | None:
    """The least T from which the operator takes less time at every longer T as well."""
    first = None
    for T in reversed(both(operator, core)):
        if operator[T].time_s >= core[T].time_s:
            break
        first = T
    return first


def _overtaking(pairs: dict[bool, tuple[Lengths, Lengths]]) -> str:
    """ "overtakes sdpa_flash from T = 256 (full) and T = 512 (causal), …"; "" where it does not."""
    parts: list[str] = []
    behind: list[str] = []
    last = ""
    for is_causal, (operator, core) in pairs.items():
        if (first := overtakes_from(operator, core)) is None:
            continue
        lengths, mask = both(operator, core), "causal" if is_causal else "full"
        least = ", the least measured" if first == lengths[0] else ""
        parts.append(f"T = {first} ({mask}{least})")
        behind += [core[T].name for T in lengths if first <= T]
        ratio = operator[lengths[-1]].time_s / core[lengths[-1]].time_s
        last = f"{digits(ratio, 2)} × its time at T = {lengths[-1]}, {mask}"
    if not parts:
        return ""
    return (
        f"overtakes {' and '.join(dict.fromkeys(behind))} from {' and '.join(parts)}, with {last}"
    )


def _cost(pairs: dict[bool, tuple[Lengths, Lengths]], run: Run) -> str:
    """ "costs 62 × the softmax core at …": at the longest T of the first mask."""
    for operator, core in pairs.values():
        if lengths := both(operator, core):
            one, other = operator[lengths[-1]], core[lengths[-1]]
            place = where(other.cells[0], run)
            times = f"{time_text(one.time_s)} against {time_text(other.time_s)} of {other.name}"
            ratio = digits(one.time_s / other.time_s, 2)
            return f"costs {ratio} × the softmax core at {place}, {times}"
    return ""
