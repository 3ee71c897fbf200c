"""A comparison as Markdown for a comment or a step summary: short enough for both, worst first."""

from __future__ import annotations

from collections.abc import Sequence

from results.units import digits, time_unit
from results.verdict import VERDICTS, Comparison, Verdict
from results.verdict_text import (
    UNKNOWN,
    change_text,
    conclusion,
    interval_text,
    launches_text,
    p_text,
    seen_text,
    suite_text,
)

# GitHub takes comments of 65 536 characters.
LONGEST = 60_000
_HEAD = "| cell | base | change | 95 % | p | n | sees |\n|---|--:|--:|--:|--:|--:|--:|\n"


def markdown(comparison: Comparison, code: int) -> str:
    """The whole comment; rows that do not fit are counted in it, never dropped in silence."""
    lines = [f"### {_plain(conclusion(comparison, code))}", ""]
    names = f"{comparison.base} ({comparison.base_launches} launches)"
    lines += [f"head {comparison.head} ({comparison.head_launches}) against base {names}", ""]
    told = [reason.text for reason in comparison.reasons if reason.severity != "ignored"]
    told += [*comparison.notes, *filter(None, [suite_text(comparison)])]
    if not any("cuda" in one.name for one in comparison.verdicts):
        told.append("GPU time: not measured")
    lines += [f"- {_plain(line)}" for line in told]
    text = "\n".join(lines) + "\n"
    for verdict in VERDICTS:
        of_verdict = [one for one in comparison.verdicts if one.verdict == verdict]
        if of_verdict:
            text += _section(verdict, of_verdict, LONGEST - len(text) - 100 * len(VERDICTS))
    return text


def _section(verdict: str, verdicts: Sequence[Verdict], room: int) -> str:
    head = f"\n**{len(verdicts)} {verdict}**\n\n"
    if verdict == "unchanged":
        return head
    seconds, unit = time_unit(one.base_s for one in verdicts)
    text, left = head + _HEAD.replace("base", f"base [{unit}]"), len(verdicts)
    for one in verdicts:
        row = _row(one, seconds)
        if len(text) + len(row) > room:
            break
        text, left = text + row, left - 1
    if left == len(verdicts):
        return f"{head}(no room for them here: --json has all)\n"
    return text + (f"\n… and {left} more {verdict}: --json has all\n" if left else "")


def _row(one: Verdict, seconds: float) -> str:
    base = UNKNOWN if one.base_s is None else digits(one.base_s / seconds)
    why = "; ".join([*one.reasons, *([f"waived: {one.waiver}"] if one.waiver else [])])
    cells = [
        f"`{one.name}`" + (f" {_plain(why)}" if why else ""),
        base,
        change_text(one.ratio),
        interval_text(one),
        p_text(one.p),
        launches_text(one),
        seen_text(one),
    ]
    return f"| {' | '.join(cells)} |\n"


def _plain(text: str) -> str:
    """Words from elsewhere must not become tables, tags or mentions."""
    for mark, written in (("|", "\\|"), ("<", "&lt;"), ("@", "@\u200b"), ("\n", " ")):
        text = text.replace(mark, written)
    return text[:1000]
