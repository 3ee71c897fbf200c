"""A profile as text of 80 columns, and as a record."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from suites.profile.cell_words import name_of
from suites.profile.instruments import Instrument
from suites.profile.kernels import Kernel
from suites.profile.memory_counters import Counted
from suites.profile.profiled import Profiled
from suites.session.sweep import Cell

_MOST_ROWS, _WIDTH = 16, 80


def record(
    cell: Cell,
    device: str,
    found: Profiled,
    counts: Mapping[str, Any],
    traffic: Counted,
    instruments: Sequence[Instrument],
) -> dict[str, Any]:
    """All of it, for --json and profile.json; times in seconds, of one call."""
    table, check = found.table, found.check
    return {
        "schema": 1,
        "name": name_of(cell),
        **cell.identity(),
        "device": device,
        "check": {**check.to_json(), "reasons": list(check.reasons)},
        "calls": found.calls,
        "calls_shown": table.calls,
        "warm_up_calls": found.warm_up,
        "plain_s": found.plain_s,
        "call_s": table.call_s,
        "kernels": [asdict(kernel) for kernel in table.kernels],
        "bookkeeping_s": table.bookkeeping_s,
        "outside_s": table.outside_s,
        "page_faults": found.page_faults,
        "bytes": {
            "compulsory": counts["compulsory_bytes"],
            "algorithmic": counts["algorithmic_bytes"],
            "of_kernels": _known_bytes(table.kernels),
            "dram": traffic.n_bytes,
            "dram_told": traffic.told,
        },
        "instruments": [asdict(instrument) for instrument in instruments],
    }


def as_text(told: Mapping[str, Any]) -> str:
    """A line a kernel, then what is outside of any, the bytes, and what else there is."""
    lines = [*_wrapped(told["name"]), *_checked(told["check"]), *_wrapped(_calls(told)), ""]
    lines += [_row("kernel", "what it is", "calls", "ms", "%", "MB"), *_rows(told), ""]
    for line in (*_bytes(told["bytes"]), _faults(told), *_instruments(told["instruments"])):
        lines += _wrapped(line)
    return "\n".join([*lines, f"Trace, for https://ui.perfetto.dev: {told['trace']}"])


def _calls(told: Mapping[str, Any]) -> str:
    of = f"{told['calls']} calls"
    if told["calls_shown"] < told["calls"]:
        of = f"the faster {told['calls_shown']} of {of}"
    gpu = ", from the first kernel to the end of the last" if told["device"] == "cuda" else ""
    words = (
        f"A call takes {_ms(told['plain_s'])} ms; {_ms(told['call_s'])} ms under the profiler, "
        f"mean of {of}{gpu}. The first call and {told['warm_up_calls']} more were made before and "
        "are not in it."
    )
    if told["cache"] != "hot":
        words += f" Called back to back: the cell's cache state, {told['cache']}, is not kept."
    return words


def _checked(check: Mapping[str, Any]) -> list[str]:
    if check["ok"]:
        return _wrapped(f"Right: {check['rows']} rows against {check['against']}.")
    return _wrapped(f"WRONG: {'; '.join(check['reasons'])}")


def _rows(told: Mapping[str, Any]) -> Iterator[str]:
    kernels, whole_s = told["kernels"], told["call_s"]
    for one in kernels[:_MOST_ROWS]:
        yield _timed(one["name"], one["what"], one["calls"], one["time_s"], whole_s, one["bytes"])
    if more := kernels[_MOST_ROWS:]:
        calls, time_s = sum(one["calls"] for one in more), sum(one["time_s"] for one in more)
        yield _timed(f"and {len(more)} more", "", calls, time_s, whole_s, _sum_of(more))
    if told["bookkeeping_s"]:
        rest = ("views, allocation, dispatch", "no data moved")
        yield _timed(*rest, None, told["bookkeeping_s"], whole_s, None)
    where = "device idle" if told["device"] == "cuda" else "Python, other code"
    yield _timed("outside any kernel", where, None, told["outside_s"], whole_s, None)
    calls = sum(one["calls"] for one in kernels)
    yield _timed("in all", "", calls, whole_s, whole_s, _sum_of(kernels))


def _timed(
    name: str, what: str, calls: float | None, time_s: float, whole_s: float, n_bytes: float | None
) -> str:
    percent = f"{100 * time_s / whole_s:.1f}" if whole_s else "–"
    megabytes = "–" if n_bytes is None else f"{n_bytes / 1e6:,.2f}"
    return _row(name, what, "" if calls is None else f"{calls:g}", _ms(time_s), percent, megabytes)


def _row(name: str, what: str, calls: str, ms: str, percent: str, megabytes: str) -> str:
    return (
        f"{_clipped(name, 29):<29} {_clipped(what, 21):<21}{calls:>5}{ms:>8}{percent:>6}"
        f"{megabytes:>10}"
    )


def _bytes(found: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"Bytes: {_mb(found['compulsory'])} at least, each tensor once; "
        f"{_mb(found['algorithmic'])} as the implementation declares; "
        f"{_mb(found['of_kernels'])} as its kernels' tensors say."
    )
    if found["dram"] is None:
        yield f"DRAM: not measured: {found['dram_told']}."
    else:
        yield f"DRAM: {_mb(found['dram'])} measured ({found['dram_told']})."


def _faults(told: Mapping[str, Any]) -> str:
    return f"Page faults: {told['page_faults']:g} a call without the profiler."


def _instruments(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for one in found:
        yield f"{one['name']}: {'' if one['is_used'] else 'not used: '}{one['told']}."


def _known_bytes(kernels: Sequence[Kernel]) -> float | None:
    return _sum_of([asdict(kernel) for kernel in kernels])


def _sum_of(kernels: Sequence[Mapping[str, Any]]) -> float | None:
    known = [one["bytes"] for one in kernels if one["bytes"] is not None]
    return sum(known) if known else None


def _mb(n_bytes: float | None) -> str:
    return "not known" if n_bytes is None else f"{n_bytes / 1e6:,.2f} MB"


def _ms(seconds: float) -> str:
    """Four digits, below a millisecond four decimals."""
    ms = 1e3 * seconds
    return f"{ms:.4f}" if ms < 1 else f"{ms:#.4g}".rstrip(".")


def _clipped(text: str, width: int) -> str:
    """Its end is what tells it from others: a template's name is long before it."""
    return (
        text if len(text) <= width else f"{text[: width // 2 - 1]}…{text[-(width - width // 2) :]}"
    )


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
