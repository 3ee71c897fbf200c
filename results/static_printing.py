"""Static profiles and verdicts for a terminal: a table, lines, and what differs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from results.static_baseline import Accepted
from results.static_difference import shown
from results.static_gate import Judgement, counts
from results.static_profile import StaticProfile
from results.static_table import (
    block_text,
    constants_text,
    limit_text,
    notes,
    reading_order,
    spills_text,
    varying_constants,
)

# Of one verdict in one line: the rest is counted there and listed by --json.
_TOLD = 6


def print_profiles(profiles: Sequence[StaticProfile], console: Console) -> None:
    """A table for each kernel, dtype and set of constants, in 80 columns; then what is amiss."""
    varying = varying_constants(profiles)
    groups: dict[str, list[StaticProfile]] = {}
    for one in reading_order(profiles):
        words = [one.kernel, one.dtype or "", constants_text(one, varying)]
        groups.setdefault(", ".join(filter(None, words)), []).append(one)
    for title, group in groups.items():
        console.print()
        console.print(Text(title))
        table = Table(box=None, pad_edge=False)
        for header in _COLUMNS:
            justify = "left" if header in _WORDS else "right"
            table.add_column(header, justify=justify, overflow="fold")
        for one in group:
            table.add_row(*map(Text, _row(one)))
        console.print(table)
        for one in group:
            for note in notes(one):
                size = f" d_h={one.d_h}" if one.d_h else ""
                console.print(Text(f"  {one.arch}{size} {block_text(one)}: {note}"))
    console.print(Text(_MEANING))


_COLUMNS = ("arch", "d_h", "block", "regs", "spills", "KiB", "warps", "bound %", "limited by")
_WORDS = ("arch", "block", "spills", "limited by")
_MEANING = (
    "bound: share of the peak with nothing overlapped to all; no prediction.\n"
    "KiB: shared memory of a block. spills: stores+loads of local memory."
)


def _row(one: StaticProfile) -> list[str]:
    r, bound = one.resources, one.bound
    figures = [str(r.registers), spills_text(one)] if r else ["–", "–"]
    figures += [f"{r.shared_bytes / 1024:.0f}", str(r.warps)] if r else ["–", "–"]
    span = f"{bound.no_overlap_percent:.0f}–{bound.overlap_percent:.0f}" if bound else "–"
    return [one.arch, str(one.d_h or "–"), block_text(one), *figures, span, limit_text(one)]


def names(ones: Iterable[Accepted | StaticProfile]) -> dict[tuple, str]:
    """ "triton_flash_forward sm_90 d_h=128" by subject, and by block what tells blocks apart.

    Of the constants, and of the dtype, only what tells subjects apart is named.
    """
    ones = list(ones)
    dtypes = {one.dtype for one in ones}
    found: dict[tuple, str] = {}
    for one in ones:
        same = [o for o in ones if o.subject[:4] == one.subject[:4]]
        varies = {n for o in same for n, v in o.constants.items() if one.constants.get(n) != v}
        words = [one.kernel, one.arch]
        words += [one.dtype] if one.dtype and len(dtypes) > 1 else []
        words += [f"d_h={one.d_h}"] if one.d_h else []
        words += [f"{n}={one.constants[n]}" for n in sorted(one.constants) if n in varies]
        blocks = [o.block for o in ones if o.subject == one.subject]
        other = {n for b in blocks for n, v in b.items() if one.block.get(n) != v}
        words += [f"{n}={one.block[n]}" for n in sorted(one.block) if n in other]
        found[one.key] = " ".join(words)
    return found


def lines(judged: Sequence[Judgement]) -> list[str]:
    """One line for each verdict but "unchanged", the worst first."""
    name = names(j.of for j in judged)
    return [
        f"{j.verdict:<12} {name[j.of.key]}: {told(j.reasons)}"
        for j in judged
        if j.verdict != "unchanged"
    ]


def told(reasons: Sequence[str], most: int = _TOLD) -> str:
    """The first reasons in one line, and how many more there are."""
    rest = len(reasons) - most
    return ", ".join(reasons[:most]) + (f" and {rest} more" if rest > 0 else "")


def conclusion(judged: Sequence[Judgement], code: int) -> str:
    """The last line: passed or not, the counts, and the worst verdict with its reason."""
    word = {0: "PASSED", 1: "FAILED", 4: "NOT COMPARABLE", 5: "BROKEN"}[code]
    if not judged:
        return f"{word}: nothing was compared"
    start = f"{word}: {counts_text(judged)}"
    worst = next((j for j in judged if j.code == code), judged[0])
    if not code:
        rest = "; python -m results accept --static keeps the improvement"
        return start + (rest if counts(judged).get("improved") else "")
    return f"{start}: {names(j.of for j in judged)[worst.of.key]}: {told(worst.reasons, 4)}"


def counts_text(judged: Sequence[Judgement]) -> str:
    """ "1 regressed, 35 unchanged", the worst first."""
    return ", ".join(f"{n} {verdict}" for verdict, n in counts(judged).items())


def print_differences(judged: Sequence[Judgement], console: Console) -> None:
    """A table of every gated figure that differs, profile by profile, the worst first."""
    name = names(j.of for j in judged)
    for judgement in judged:
        if judgement.verdict == "unchanged":
            continue
        figures = {difference.text for difference in judgement.differences}
        console.print()
        console.print(Text(f"{judgement.verdict}: {name[judgement.of.key]}"))
        for reason in judgement.reasons:
            if reason not in figures:
                console.print(Text(f"  {reason}"))
        if not judgement.differences:
            continue
        table = Table(box=None, pad_edge=False)
        table.add_column("  figure", overflow="fold")
        for side in ("before", "after"):
            table.add_column(side, justify="right")
        table.add_column("")
        for d in judgement.differences:
            label = f"  {d.figure.label}" + (f" [{d.figure.unit.strip()}]" if d.figure.unit else "")
            worse = "worse" if d.is_worse else ""
            table.add_row(Text(label), shown(d.before), shown(d.after), worse)
        console.print(table)


def record(judged: Sequence[Judgement]) -> list[dict[str, Any]]:
    """The judgements for JSON, the worst first."""
    name = names(j.of for j in judged)
    return [
        {
            "verdict": j.verdict,
            "name": name[j.of.key],
            **{k: getattr(j.of, k) for k in ("kernel", "arch", "dtype", "d_h", "triton", "ptxas")},
            "constants": dict(j.of.constants),
            "block": dict(j.of.block),
            "reasons": list(j.reasons),
            "differences": [
                {"figure": d.name, "before": d.before, "after": d.after, "is_worse": d.is_worse}
                for d in j.differences
            ],
        }
        for j in judged
    ]
