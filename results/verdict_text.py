"""Verdicts in words: numbers as every output writes them, and the line that sums up."""

from __future__ import annotations

from results.comparable import blocking
from results.units import digits
from results.verdict import (
    BROKEN,
    INCONCLUSIVE,
    NOT_COMPARABLE,
    PASS,
    REGRESSED,
    USAGE,
    Comparison,
    Verdict,
)

_WORDS = {
    REGRESSED: "FAILED",
    USAGE: "REFUSED",
    INCONCLUSIVE: "INCONCLUSIVE",
    NOT_COMPARABLE: "NOT COMPARABLE",
    BROKEN: "BROKEN",
}
UNKNOWN = "–"


def change_text(ratio: float | None) -> str:
    """A ratio as a change: "+5.2 %", "−3.1 %", and from twice on "3.40x"."""
    if ratio is None:
        return UNKNOWN
    if ratio >= 2:
        return f"{digits(ratio)}x"
    return f"{100 * (ratio - 1):+.1f} %".replace("-", "−")


def interval_text(one: Verdict) -> str:
    """The 95 % interval of the ratio; "1 launch" where there is none."""
    if one.high is None or one.low is None:
        n = min(one.base_launches, one.head_launches)
        return "1 launch" if n == 1 else UNKNOWN
    low, high = change_text(one.low), change_text(one.high)
    return f"{low.removesuffix(' %')} … {high}"


def p_text(p: float | None) -> str:
    """A p with two digits."""
    if p is None:
        return UNKNOWN
    return f"{p:.2f}" if p >= 0.01 else f"{p:.0e}".replace("e-0", "e-")


def launches_text(one: Verdict) -> str:
    """How many launches stand behind it, of base and head."""
    n, m = one.base_launches, one.head_launches
    return str(n) if n == m else f"{n}, {m}"


def seen_text(one: Verdict) -> str:
    """The smallest slowdown that it could have seen."""
    return change_text(one.smallest_seen)


def counts_text(comparison: Comparison) -> str:
    """Every count of verdicts, the worst first; and how many of them do not fail."""
    parts = []
    for verdict, n in comparison.counts.items():
        those = [one for one in comparison.verdicts if one.verdict == verdict]
        waived = sum(one.waiver is not None for one in those)
        shown = sum(one.tier == "informational" for one in those)
        notes = [f"{waived} waived"] * bool(waived) + [f"{shown} informational"] * bool(shown)
        parts.append(f"{n} {verdict}" + (f" ({', '.join(notes)})" if notes else ""))
    return ", ".join(parts) or "0 cells"


def sentence(one: Verdict) -> str:
    """One cell's verdict as a sentence for a log: name, change, interval, why."""
    parts = []
    if one.ratio is not None:
        parts.append(f"{change_text(one.ratio)} ({interval_text(one)}, p {p_text(one.p)})")
    parts += one.reasons
    if one.waiver:
        parts.append(f"waived: {one.waiver}")
    return f"{one.name}: {'; '.join(parts)}" if parts else one.name


def suite_text(comparison: Comparison) -> str | None:
    """What was found of the suite as a whole."""
    suite = comparison.suite
    if suite is None:
        return None
    found = "the suite as a whole is slower" if suite.is_slower else "the suspects together"
    numbers = f"{change_text(suite.ratio)} over {suite.cells} cells and {suite.pairs} pairs"
    return f"{found}: {numbers} of launches, p {p_text(suite.p)}"


def conclusion(comparison: Comparison, code: int) -> str:
    """The last line: a word, every count, and what to look at first."""
    word = _WORDS.get(code, "PASSED")
    if against := blocking(comparison.reasons):
        fields = " ".join(f"--allow-mismatch {reason.field}" for reason in against)
        told = "; ".join(reason.text for reason in against)
        return f"{word}: {told}. To compare all the same: {fields}"
    if code == USAGE and comparison.refused:
        return f"{word}: {comparison.refused}"
    if code == PASS and comparison.is_nothing_judged:
        return f"NOTHING JUDGED: {counts_text(comparison)}: {comparison.refused}"
    line = f"{word}: {counts_text(comparison)}"
    if comparison.compared == 0:
        return f"{line}: nothing was compared: {_why_nothing(comparison)}"
    if comparison.is_suite_slower:
        line += f"; {suite_text(comparison)}"
    failing = [one for one in comparison.verdicts if one.fails]
    telling = failing or [one for one in comparison.verdicts if one.is_left_unconfirmed]
    if telling:
        return f"{line}: {sentence(telling[0])}"
    return f"{line}; {faster}" if (faster := _seems_faster(comparison)) else line


def _seems_faster(comparison: Comparison) -> str:
    """What the screen found faster and nobody measured again: unchanged, as far as is proven."""
    found = [v for v in comparison.verdicts if v.suspect == "faster" and not v.is_confirmed]
    if not found:
        return ""
    best = min(found, key=lambda one: one.ratio or 1.0)
    seem = f"{len(found)} seem{'s' * (len(found) == 1)} faster, not confirmed"
    return f"{seem}: {best.name} {change_text(best.ratio)}"


def _why_nothing(comparison: Comparison) -> str:
    """Why no cell was timed on both sides: the cells differ, one broke, or none was measured."""
    if comparison.refused:
        return comparison.refused
    sides = [[v for v in comparison.verdicts if v.verdict == name] for name in ("missing", "new")]
    if all(sides) and len(comparison.verdicts) == sum(map(len, sides)):
        base, head = (f"{len(those)}, first {those[0].name}" for those in sides)
        return f"the sides have no cell in common: base has {base}; head has {head}"
    if broken := [one for one in comparison.verdicts if one.fails and one.verdict == "broken"]:
        return sentence(broken[0])
    why = "is xdist active, are benchmarks disabled, is the selection empty?"
    if {one.verdict for one in comparison.verdicts} == {"incomparable"}:
        why = sentence(comparison.verdicts[0])
    return f"no cell was timed on both sides: {why}"
