"""A comparison as JSON: what `python -m results compare | gate --json` prints, complete.

The contract for whoever calls these commands as child processes. One object on stdout:

    command        "compare" or "gate"
    exit_code      0 pass, 1 regressed or wrong, 2 refused, 3 inconclusive (--strict),
                   4 not comparable or missing, 5 broken or nothing compared
    conclusion     the last line of the table: a word in capitals, counts, the worst cell
    base, head     {name, launches, commit}
    compared       how many cells both sides measured
    counts         cells by verdict, without zeros
    refused        why the launches can tell nothing, with how many would do; else null
    suspects       names of the cells to be confirmed: they seem slower and have no fresh launches
    suspects_faster  the same for the other direction; confirming them is optional
    reasons        [{field, base, head, severity, is_allowed, text}], what differs between the runs
    suite          {ratio, p, pairs, cells, is_slower}, or null where it was not asked
    cumulative     null, or this object's cells and counts against the oldest baseline
    notes          lines for a reader
    cells          [{name, implementation, problem, pass, cache, clock, verdict, fails, is_wrong,
                     ratio, low, high, p, floor, smallest_seen, base_s, head_s, base_launches,
                     head_launches, suspect, is_confirmed, tier, waiver, reasons}], the worst first

null is "not known". Times are seconds, ratios head / base (1.05 is 5 % slower).

A staged comparison is two calls: `gate BASE HEAD --screen-only --json` on the first launches gives
`suspects`; measure those alone in fresh launches, and call `gate BASE HEAD --json` on all launches,
the first ones first. A side is several runs, or one of several launches: `results.side_names`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from results.verdict import Comparison, Verdict


def comparison_record(
    comparison: Comparison, commits: Mapping[str, str | None] | None = None
) -> dict[str, Any]:
    """The comparison without the command's own fields (`command`, `exit_code`, `conclusion`)."""
    commits = commits or {}
    waiting = [v for v in comparison.verdicts if v.suspect and not v.is_confirmed]
    return {
        **{
            side: {
                "name": getattr(comparison, side),
                "launches": getattr(comparison, f"{side}_launches"),
                "commit": commits.get(side),
            }
            for side in ("base", "head")
        },
        "compared": comparison.compared,
        "counts": comparison.counts,
        "refused": comparison.refused,
        "suspects": [v.name for v in waiting if v.suspect == "slower"],
        "suspects_faster": [v.name for v in waiting if v.suspect == "faster"],
        "reasons": [asdict(reason) | {"text": reason.text} for reason in comparison.reasons],
        "suite": asdict(comparison.suite) if comparison.suite else None,
        "notes": list(comparison.notes),
        "cells": [verdict_record(one) for one in comparison.verdicts],
    }


def verdict_record(one: Verdict) -> dict[str, Any]:
    """One cell's verdict with the parts of its name."""
    parts = ("implementation", "problem", "pass", "cache", "clock")
    named = dict(zip(parts, one.name.split(" "), strict=False))
    return {"name": one.name, **named, **asdict(one), "fails": one.fails}
