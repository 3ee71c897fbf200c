"""Models: how near to their bounds the layers of published models come, prompt and decode apart."""

from __future__ import annotations

from collections import defaultdict
from statistics import median

from results.finding import Finding, finding
from results.model_label import PARTS, PHASES, ModelLabel, read_label
from results.run import Run
from results.schema import Cell

SUITE = "models"


def answer(run: Run) -> Finding | None:
    """The range of % of bound over the models, with the nearest and the farthest by name."""
    best = _best(run)
    told, cells, part = [], [], _part(best)
    for phase in PHASES:
        shown = {
            label.row: cell
            for label, cell in best.items()
            if (label.phase, label.part) == (phase, part)
        }
        if shown:
            told.append(_told(phase, shown))
            cells += shown.values()
    if not told:
        return None
    what = "the whole layer" if part == "layer" else "the core"
    return finding(f"Of its bound {what} of a published model reaches {'; '.join(told)}.", cells)


def _best(run: Run) -> dict[ModelLabel, Cell]:
    """The fastest comparable cell of each series; of several launches the median one."""
    times: dict[tuple[ModelLabel, str], list[Cell]] = defaultdict(list)
    for cell in run.trusted_cells:
        label = read_label(cell.series) if cell.suite == SUITE else None
        if label is not None and cell.percent_of_bound is not None:
            times[label, cell.implementation].append(cell)
    best: dict[ModelLabel, Cell] = {}
    for (label, _), cells in times.items():
        middle = sorted(cells, key=_time_s)[(len(cells) - 1) // 2]
        if label not in best or _time_s(middle) < _time_s(best[label]):
            best[label] = middle
    return best


def _part(best: dict[ModelLabel, Cell]) -> str:
    """The layer where any was measured, else the core."""
    return next((part for part in PARTS if any(label.part == part for label in best)), PARTS[0])


def _told(phase: str, shown: dict[str, Cell]) -> str:
    shares = {row: cell.percent_of_bound or 0.0 for row, cell in shown.items()}
    low, high = min(shares, key=lambda r: shares[r]), max(shares, key=lambda r: shares[r])
    if len(shares) == 1:
        return f"{shares[low]:.0f} % in {phase} ({low})"
    return (
        f"{shares[low]:.0f} % ({low}) to {shares[high]:.0f} % ({high}) in {phase}, "
        f"median {median(shares.values()):.0f} % of {len(shares)}"
    )


def _time_s(cell: Cell) -> float:
    return cell.time_s or 0.0
