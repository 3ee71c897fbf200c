"""The table of a run's timed cells for a terminal: sweep after sweep, its flags always legible."""

from __future__ import annotations

from collections.abc import Sequence

from reports.columns import NOTHING, Column, columns, marks, missing_ratios, shared_parts
from reports.rows import in_reading_order, left_out, reasons
from reports.style import CLOCK_NAMES, count_name
from results.interval import MEANING, half_width_text
from results.phrases import lengths_of
from results.run import Run
from results.schema import Cell
from results.trouble import advice

_LONGEST = 48  # characters of one field
# The columns between ± and the flags, and the characters a terminal must have for each.
_FROM_WIDTH = {
    "flop_per_s": 0,
    "times_baseline": 0,
    "percent_of_bound": 0,
    "repeats": 0,
    "binds": 72,
    "bytes_per_s": 92,
    "error": 104,
    "peak_bytes": 116,
    "clock": 132,
    "ran": 150,
}
# What gives way, in this order, where the flags would have no room; the headline goes last.
_GIVES_WAY = [*reversed([*_FROM_WIDTH][3:]), "flop_per_s", "times_baseline", "percent_of_bound"]
_SHORT_FLAGS = {"host_bound": "host", "near_floor": "floor", "above_ceiling": "above"}
_HEADERS = {"percent_of_bound": "% bound"}
_GAP = "  "


def terminal(run: Run, width: int = 80) -> str:
    """The timed cells by sweep and size, then one line a reason, no line wider than `width`."""
    found = columns(run)
    lines: list[str] = []
    sweeps: dict[tuple[str, ...], list[Cell]] = {}
    for cell in in_reading_order(cell for cell in run.cells if cell.timing):
        problem = cell.problem
        key = (cell.suite, cell.series, problem.dtype, cell.pass_, cell.cache, cell.clock)
        key += (str(problem.causal), problem.operator, str(cell.launch))
        sweeps.setdefault(key, []).append(cell)
    for (suite, series, _, pass_, cache, clock, causal, _, launch), cells in sweeps.items():
        mask = "causal" if causal == "True" else "full"
        name = series if mask in series else f"{series}, {mask}".strip(", ")
        title = name if name.startswith(suite) else f"{suite}: {name}"
        parts = [title, shared_parts(cells)]
        parts.append(f"{pass_}, {cache}, {CLOCK_NAMES.get(clock, clock)}")
        parts[-1] += f", launch {launch}" if run.launches > 1 else ""
        binds = {text for cell in cells if (text := found["binds"].show(cell)) != NOTHING}
        if len(binds) == 1:
            parts.append(f"bound by {binds.pop()}")
        telling = {"binds": bool(binds), "repeats": any(cell.repeats for cell in cells)}
        shown = {k: c for k, c in found.items() if telling.get(k, True)}
        lines += _wrapped(" · ".join(parts), width, indent="  ")
        lines += [*_sweep(cells, shown, width), *_footnote(run, cells, width), ""]
    if lines:
        lines += [*_wrapped(f"{MEANING}.", width, indent="   "), ""]
    for reason in reasons(run.cells):
        lines += _wrapped(reason, width, indent="    ")
    for note in (left_out(run), *advice(run)):
        lines += _wrapped(note, width, indent="    ") if note else []
    return "\n".join(lines)


def _sweep(cells: Sequence[Cell], found: dict[str, Column], width: int) -> list[str]:
    """The lines of one sweep: the size once, then its implementations, the fastest first."""
    names = _varying(cells)
    keys = [k for k, least in _FROM_WIDTH.items() if k in found and width >= least]
    rows: list[list[str]] = []
    for i, cell in enumerate(cells):
        is_same = i > 0 and cells[i - 1].problem == cell.problem
        size = "" if is_same else _size_text(cell, names)
        texts = [size, cell.implementation, found["time"].show(cell), half_width_text(cell)]
        rows.append(texts + [_clip(found[k].show(cell), _LONGEST) for k in keys])
    head = ["size", "implementation", found["time"].header.removeprefix("time "), "±%"]
    head += [_HEADERS.get(k, found[k].header).replace(" (1 launch)", "") for k in keys]
    flags = [_flag_words(cell) for cell in cells]
    # One word of the flags must stand on a line, whatever else has to go.
    least = max([5, *(len(word) for words in flags for word in words)])
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]

    def spare() -> int:
        return width - sum(widths) - len(_GAP) * len(widths)

    widths[1] = max(min(12, widths[1]), widths[1] + min(0, spare() - least))
    for key in _GIVES_WAY:
        if spare() < least and key in keys:
            i = 4 + keys.index(key)
            keys.remove(key)
            for texts in (head, widths, *rows):
                texts.pop(i)
    widths[1] = max(8, widths[1] + min(0, spare() - least))
    room = max(least, spare())
    is_left = [h in ("implementation", "bound by", "repeats", "clock", "ran") for h in head]
    lines = [_line(head, widths, is_left) + _GAP + "flags"]
    for texts, words in zip(rows, flags, strict=True):
        first, *more = _packed(words, room) or [""]
        lines.append(f"{_line(texts, widths, is_left)}{_GAP}{first}".rstrip())
        lines += [" " * (sum(widths) + len(_GAP) * len(widths)) + text for text in more]
    return lines


def _line(texts: Sequence[str], widths: Sequence[int], is_left: Sequence[bool]) -> str:
    return _GAP.join(
        _clip(text, w).ljust(w) if left else _clip(text, w).rjust(w)
        for text, w, left in zip(texts, widths, is_left, strict=True)
    )


def _flag_words(cell: Cell) -> list[str]:
    return [_SHORT_FLAGS.get(word, word) for word in marks(cell)]


def _packed(words: Sequence[str], room: int) -> list[str]:
    """The words on as few lines of `room` characters as hold them, none cut."""
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + 1 + len(word) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _footnote(run: Run, cells: Sequence[Cell], width: int) -> list[str]:
    """Why rows that are not in doubt themselves have no ratio to the baseline."""
    names = _varying(cells)
    parts: dict[str, list[str]] = {}
    for cell, why in missing_ratios(run, cells):
        parts.setdefault(why, []).append(_size_text(cell, names).strip())
    if not parts or not run.has_baseline:
        return []
    told = "; ".join(f"{why} at {', '.join(dict.fromkeys(at))}" for why, at in parts.items())
    return _wrapped(f"× –: {run.baseline} is {told}.", width, indent="     ")


def _varying(cells: Sequence[Cell]) -> list[str]:
    """The sizes that tell a sweep's rows apart, "T" for both lengths; the lengths if none does."""
    names = ("B", "H", "H_kv", "d_h")
    found = [n for n in names if len({getattr(cell.problem, n) for cell in cells}) > 1]
    if all(cell.problem.H_kv == cell.problem.H for cell in cells):
        found = [n for n in found if n != "H_kv"]
    lengths = {(cell.problem.T_q, cell.problem.T_kv) for cell in cells}
    return ["T", *found] if len(lengths) > 1 or not found else found


def _size_text(cell: Cell, names: Sequence[str]) -> str:
    """ "T=1k", and "T_q=1 T_kv=1k" where the lengths differ."""
    p = cell.problem
    parts: list[str] = []
    for name in names:
        if name != "T":
            parts.append(f"{name}={count_name(getattr(p, name))}")
        elif p.lengths is not None:
            parts += [f"{which}={text}" for which, text in lengths_of(p).items()]
        elif p.T_q == p.T_kv:
            parts.append(f"T={count_name(p.T_q)}")
        else:
            parts.append(f"T_q={count_name(p.T_q)} T_kv={count_name(p.T_kv)}")
    return " ".join(parts)


def _clip(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"[:width]


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    lines, line = [], ""
    for word in text.split():
        if line.strip() and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = indent
        line += word if not line.strip() else f" {word}"
    # One word longer than the width is cut rather than let to run over.
    return [_clip(line, width) for line in [*lines, line]]
