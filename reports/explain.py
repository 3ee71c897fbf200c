"""One cell told in full: what was asked, what it costs, what binds it, and how to have it again."""

from __future__ import annotations

import math
import shlex

from impls.interface.problem import SOFTMAX
from reports.bars import histogram, sparkline
from reports.next_steps import CHECKOUT, python
from reports.style import CLOCK_NAMES, LEVEL_NAMES, plural, quantity
from results.interval import half_width_text
from results.phrases import part_text, where
from results.ratios import kind
from results.run import Run
from results.schema import Cell

UNKNOWN = "not known"
_BINS = 32
_Lines = list[tuple[str, str]]


def explained(run: Run, cell: Cell) -> _Lines:
    """The cell as (subject, words) lines; a subject that goes on has no name in the next line."""
    parts = [
        ("cell", _identity(run, cell)),
        ("problem", _problem(cell)),
        ("counts", _counts(cell)),
        ("bound", _bound(cell)),
        ("time", _time(cell)),
        ("samples", _samples(cell)),
        ("clock", _clock(cell)),
        ("memory", _memory(cell)),
        ("error", _error(cell)),
        ("ran", [", ".join(cell.ran) or UNKNOWN]),
        ("machine", _machine(run, cell)),
        ("beside it", _beside(run, cell)),
        ("again", again(run, cell)),
    ]
    return [
        (subject if i == 0 else "", words)
        for subject, lines in parts
        for i, words in enumerate(lines)
    ]


def again(run: Run, cell: Cell) -> list[str]:
    """The commands that measure this very cell once more, as typed in the checkout."""
    header, name = run.header, cell.implementation
    lines: list[str] = []
    if header.commit and header.commit != "nogit":
        dirty = "   # plus changes that were not committed" if header.dirty else ""
        lines.append(f"git checkout {header.commit}{dirty}")
    brought = {text.rpartition(":")[2]: text for text in header.settings.all.get("brought") or ()}
    asked = brought.get(name, name)
    if asked != name and (folder := header.environment.get("folder")):
        lines.append(f"cd {shlex.quote(str(folder))}")
    suites = "suites" if asked == name else shlex.quote(str(CHECKOUT / "suites"))
    options = ["--impl", asked, "--passes", cell.pass_, "--cache", cell.cache]
    options += ["--device", header.device, "--threads", str(header.settings.threads or 1)]
    options += ["--flop-convention", header.settings.flop_convention]
    if cell.problem.around is None:
        options += ["--problem", cell.problem.id]
    else:
        # What is around a core is not written in a problem's id: its sweep has it.
        suites += f"/bench_{cell.suite}.py"
        options += ["--dtype", cell.problem.dtype]
    words = " ".join(shlex.quote(option) for option in options)
    return [*lines, f"{python()} -m pytest {suites} {words}"]


def _identity(run: Run, cell: Cell) -> list[str]:
    flags = f", flagged {', '.join(cell.flags)}" if cell.flags else ""
    lines = [f"{cell.implementation}, {where(cell, run)}: {cell.status}{flags}"]
    lines += list(cell.reasons)
    series = f" ({cell.series})" if cell.series else ""
    launch = f"launch {cell.launch} of {run.launches}"
    lines.append(f"{cell.cell} in {run.name}, {launch}, sweep {cell.suite}{series}")
    if not cell.is_comparable:
        lines.append("in no ratio, no best-of and no gate")
    return lines


def _problem(cell: Cell) -> list[str]:
    p = cell.problem
    it = p.joined
    q, out = (f"({it.B}, {p.H}, {it.T_q}, {d})" for d in (p.d_h, p.d_v))
    k, v = (f"({it.B}, {p.H_kv}, {it.T_kv}, {d})" for d in (p.d_h, p.d_v))
    lines = [f"{p.id}, {cell.pass_.replace('_', ' + ')}"]
    if p.has_core:
        lines.append(f"q {q}, k {k}, v {v} → {out}; scale {p.scale:.4g}")
    lines += [f"operator {p.operator}, not softmax"] if p.operator != SOFTMAX else []
    lines += [f"around the core: {part_text(p.around)}"] if p.around is not None else []
    return lines


def _counts(cell: Cell) -> list[str]:
    counts = cell.counts
    if counts is None:
        return [UNKNOWN]
    flop = quantity(counts.flop, "FLOP")
    if cell.problem.is_attention:
        times = {"forward": "", "backward": " × 2.5", "forward_backward": " × 3.5"}[cell.pass_]
        B, in_all = ("B·", "") if cell.problem.lengths is None else ("", " in all sequences")
        flop += f" = 2·{B}H·N·(d_h + d_v){times}, "
        flop += f"N = {counts.pairs} visible pairs of a head{in_all}"
    declared = UNKNOWN if counts.algorithmic_bytes is None else quantity(
        counts.algorithmic_bytes, "B"
    )  # fmt: skip
    lines = [
        f"{flop} ({counts.flop_convention})",
        f"{quantity(counts.exp, '').strip()} exponentials",
        f"{quantity(counts.compulsory_bytes, 'B')} at least, each tensor once; {declared} as the "
        "implementation declares it, not read from counters",
    ]
    if cell.intensity is not None:
        lines.append(f"{cell.intensity:.3g} FLOP for each byte that must move")
    if counts.cache_bytes:
        lines.append(
            f"{quantity(counts.cache_bytes, 'B')} from the cache by the blocks it is cut in: "
            f"{counts.flop / counts.cache_bytes:.3g} FLOP for each"
        )
    return lines


def _bound(cell: Cell) -> list[str]:
    bound, counts = cell.bound, cell.counts
    if bound is None or counts is None:
        return ["none: no ceiling was measured for it"]
    lines = [f"{quantity(bound.time_s, 's')}: {bound.binds} binds"]
    if bound.flop_per_s:
        words = f"{quantity(counts.flop, 'FLOP')} ÷ {quantity(bound.flop_per_s, 'FLOP/s')}"
        by = bound.flop_provider or UNKNOWN
        lines.append(f"compute {quantity(counts.flop / bound.flop_per_s, 's')} = {words} ({by})")
    if bound.bytes_per_s:
        moved = counts.compulsory_bytes
        words = f"{quantity(moved, 'B')} ÷ {quantity(bound.bytes_per_s, 'B/s')}"
        level = LEVEL_NAMES.get(bound.bytes_level or "", bound.bytes_level or UNKNOWN)
        lines.append(
            f"memory {quantity(moved / bound.bytes_per_s, 's')} = {words} "
            f"({level}, {bound.bytes_provider or UNKNOWN})"
        )
    if (percent := cell.percent_of_bound) is not None and cell.time_s:
        above = cell.time_s - bound.time_s
        left = f"{quantity(above, 's')} above it" if above > 0 else "nothing is left above it"
        lines.append(f"headroom: {percent:.1f} % of the bound is reached, {left}")
    return lines


def _time(cell: Cell) -> list[str]:
    timing = cell.timing
    if timing is None:
        return ["none"]
    lines = [
        f"{quantity(timing.median_s, 's')}, median of {plural(timing.n, 'sample')}, "
        f"±{half_width_text(cell)} % within the launch; fastest {quantity(timing.min_s, 's')}"
    ]
    if cell.flop_per_s and cell.bytes_per_s:
        lines.append(
            f"{quantity(cell.flop_per_s, 'FLOP/s')} useful, "
            f"{quantity(cell.bytes_per_s, 'B/s')} of compulsory bytes"
        )
    known = {"first call": timing.first_call_s, "prepared in": timing.prepare_s}
    known |= {"wall median": timing.wall_median_s, "first ten": timing.first_ten_median_s}
    known |= {"host": timing.host_s}
    told = [f"{name} {quantity(value, 's')}" for name, value in known.items() if value]
    return [*lines, ", ".join([f"stopped: {timing.stop or UNKNOWN}", *told])]


def _samples(cell: Cell) -> list[str]:
    """How the samples lie between fastest and slowest, and how they went from first to last."""
    samples = cell.timing.samples_s if cell.timing else ()
    if len(samples) < 2:
        return ["not kept"]
    low, high = min(samples), max(samples)
    if high == low:
        return [f"all {quantity(low, 's')}"]
    step = math.ceil(len(samples) / _BINS)
    means = [
        sum(samples[i : i + step]) / len(samples[i : i + step])
        for i in range(0, len(samples), step)
    ]
    return [
        f"{quantity(low, 's')} ▏{histogram(samples, _BINS)}▕ {quantity(high, 's')}, "
        "how many lie where",
        f"first ▏{sparkline(means, low, high)}▕ last, in the order taken",
    ]


def _clock(cell: Cell) -> list[str]:
    words = f"{CLOCK_NAMES.get(cell.clock, cell.clock)}, cache {cell.cache}"
    timing = cell.timing
    if timing and timing.floor_s:
        times = timing.median_s / timing.floor_s
        words += f"; an empty call shows {quantity(timing.floor_s, 's')}, 1/{times:.0f} of this"
    lines, state = [words], cell.device_state
    if state and state.kernels_s:
        lines.append(f"its kernels took {quantity(state.kernels_s, 's')} of one call, by a profile")
    return lines


def _memory(cell: Cell) -> list[str]:
    memory = cell.memory
    if memory is None or memory.peak_bytes is None:
        return [UNKNOWN]
    return [f"{quantity(memory.peak_bytes, 'B')} peak of a call, by {memory.how or UNKNOWN}"]


def _error(cell: Cell) -> list[str]:
    check = cell.check
    if check is None:
        return ["not checked"]
    after = {True: ", before and after timing", False: ", before timing", None: ""}
    lines = [
        f"{'right' if check.ok else 'WRONG'}: {check.rows or UNKNOWN} rows against "
        f"{check.against or UNKNOWN}{after[check.after_timing]}"
    ]
    for name, output in check.outputs.items():
        told = [
            f"{word} {value:.1e}"
            for word, value in (
                ("allowed", output.allowed_max),
                ("the plain formula at this dtype", output.naive_max_error),
            )
            if value is not None
        ]
        error = "not finite" if output.max_error is None else f"{output.max_error:.1e}"
        lines.append(f"{name}: {error}" + (f" ({', '.join(told)})" if told else ""))
    return lines


def _machine(run: Run, cell: Cell) -> list[str]:
    host, state, told = cell.host, cell.device_state, []
    if host is not None:
        told = [
            f"{word} {value:.3g}{unit}"
            for word, value, unit in (
                ("page faults a call", host.minor_faults_per_call, ""),
                ("in the operating system", _percent(host.system_share), " %"),
                ("foreign load", _percent(host.foreign_load), " %"),
                ("looks", host.looks, ""),
            )
            if value is not None
        ]
    if state is not None:
        told += [
            f"{value:.0f} {unit}"
            for value, unit in (
                (state.sm_clock_mhz, "MHz"),
                (state.power_w, "W"),
                (state.temperature_c, "°C"),
            )
            if value is not None
        ]
    return [run.header.machine_key, ", ".join(told) or UNKNOWN, cell.version or "version not known"]


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _beside(run: Run, cell: Cell) -> list[str]:
    """The comparable rows of the same problem in this run, the fastest first."""
    if not cell.is_comparable or not cell.time_s:
        return ["nothing: this row is not comparable"]
    others: dict[str, Cell] = {}
    for other in run.comparable_cells:
        if kind(other) == kind(cell) and other.implementation != cell.implementation:
            others.setdefault(other.implementation, other)
    ranked = sorted(others.values(), key=lambda other: (other.time_s or 0.0, other.implementation))
    return [
        f"{other.implementation}: {quantity(other.time_s, 's')}, "
        f"{other.time_s / cell.time_s:.2f} × the time"
        for other in ranked
        if other.time_s
    ] or ["nothing comparable of the same problem in this run"]
