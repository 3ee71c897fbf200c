"""What disturbed a run, summed over its rows: others, heat, a power cap, swapping."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from results.run import Run
from results.schema import TIMED, Cell
from results.units import si_text


def disturbance(run: Run) -> str:
    """One sentence without its full stop; "" where nothing was timed.

    What nobody could see is named, never counted as absent.
    """
    cells = [cell for cell in run.cells if cell.status in TIMED and cell.host is not None]
    if not cells:
        return ""
    seen = [words for words in (_others(cells), _heat(cells), _cap(cells), _swap(cells)) if words]
    told = "; ".join(seen) or "none seen"
    unseen = _unseen(run, cells)
    hidden = f" ({' and '.join(unseen)} cannot be seen here)" if unseen else ""
    return f"Disturbances over {len(cells)} timed row{'s' * (len(cells) > 1)}: {told}{hidden}"


def _others(cells: list[Cell]) -> str:
    contended = sum("contended" in cell.flags for cell in cells)
    most = max(_known(cells, _other_processes), default=0)
    parts = [f"{contended} contended"] if contended else []
    parts += [f"up to {most:.0f} other process{'es' * (most > 1)} on the GPU"] if most else []
    return ", ".join(parts)


def _heat(cells: list[Cell]) -> str:
    slowed_s = sum(_known(cells, _throttled_s))
    throttles = sum(_known(cells, _throttles))
    if slowed_s:
        return f"slowed for heat for {slowed_s:.3g} s"
    return f"a core slowed for heat {throttles:.0f} times" if throttles else ""


def _cap(cells: list[Cell]) -> str:
    capped_s = sum(_known(cells, _capped_s))
    return f"at the power cap for {capped_s:.3g} s" if capped_s else ""


def _swap(cells: list[Cell]) -> str:
    swapped = sum(_known(cells, _swapped_bytes))
    return f"{si_text(swapped, 'B')} read back from swap" if swapped else ""


def _unseen(run: Run, cells: list[Cell]) -> list[str]:
    """What no row has a number of, though the machine may have done it."""
    heat = _throttled_s if run.header.device == "cuda" else _throttles
    unseen = [] if _known(cells, heat) else ["heat"]
    return unseen + ([] if _known(cells, _swapped_bytes) else ["swapping"])


def _known(cells: Iterable[Cell], read: Callable[[Cell], float | None]) -> list[float]:
    return [value for cell in cells if (value := read(cell)) is not None]


def _other_processes(cell: Cell) -> float | None:
    return cell.device_state.other_processes if cell.device_state else None


def _throttled_s(cell: Cell) -> float | None:
    return cell.device_state.thermally_throttled_s if cell.device_state else None


def _capped_s(cell: Cell) -> float | None:
    return cell.device_state.power_capped_s if cell.device_state else None


def _throttles(cell: Cell) -> float | None:
    return cell.host.cpu_throttles if cell.host else None


def _swapped_bytes(cell: Cell) -> float | None:
    return cell.host.swapped_in_bytes if cell.host else None
