"""The verdict on each cell of a comparison, what fails of it, and the exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from results.comparable import Reason, blocking

if TYPE_CHECKING:
    # It judges by scipy, whose import takes longer than a page of verdicts needs.
    from results.gate import SuiteWide

# The worst first: so they are printed.
VERDICTS = (
    *("regressed", "broken", "missing", "incomparable"),
    *("inconclusive", "improved", "new", "unchanged"),
)
COMPARED = ("regressed", "inconclusive", "improved", "unchanged")
PASS, REGRESSED, USAGE, INCONCLUSIVE, NOT_COMPARABLE, BROKEN = range(6)


@dataclass(frozen=True)
class Verdict:
    """What is said of one cell; None is "not known".

    Attributes:
        ratio: head's time / base's; above 1 is slower. With `low` and `high`, its 95 % interval.
        p: one-sided, of the direction that `ratio` has; of a suspect by Holm.
        floor: the ratio that a regression must reach.
        smallest_seen: the smallest ratio that nine in ten such plans find.
        suspect: "slower" or "faster" where the screen said so.
        is_confirmed: the figures are from fresh launches after the screen.
        tier: "blocking" or "informational".
        waiver: why a regression, breakage or absence may stay.
        is_wrong: head gave a wrong result.
    """

    name: str
    verdict: str
    base_launches: int = 0
    head_launches: int = 0
    base_s: float | None = None
    head_s: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    floor: float | None = None
    smallest_seen: float | None = None
    suspect: str | None = None
    is_confirmed: bool = False
    reasons: tuple[str, ...] = ()
    tier: str = "blocking"
    waiver: str | None = None
    is_wrong: bool = False

    @property
    def fails(self) -> bool:
        """Whether a gate that sees it fails: a waiver or the tier may let it pass."""
        is_bad = self.verdict in ("regressed", "broken", "missing")
        return is_bad and self.tier == "blocking" and self.waiver is None

    @property
    def is_left_unconfirmed(self) -> bool:
        """Whether the screen found it slower and nobody measured it again."""
        is_slower = self.suspect == "slower" and self.verdict == "inconclusive"
        return is_slower and not self.is_confirmed and self.tier == "blocking"


@dataclass(frozen=True)
class Comparison:
    """Head against base: every cell's verdict, the worst first, and what holds for all.

    Attributes:
        reasons: the fields in which the runs differ; with a blocking one there are no verdicts.
        refused: why the launches cannot tell anything, where they cannot.
        notes: what a reader should know: launches, flagged rows left out, ignored entries.
    """

    base: str
    head: str
    base_launches: int
    head_launches: int
    verdicts: tuple[Verdict, ...] = ()
    suite: SuiteWide | None = None
    reasons: tuple[Reason, ...] = ()
    refused: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """Cells by verdict, in the order of `VERDICTS`, without zeros."""
        counted = Counter(one.verdict for one in self.verdicts)
        return {verdict: counted[verdict] for verdict in VERDICTS if counted[verdict]}

    @property
    def compared(self) -> int:
        """The cells that both sides measured."""
        return sum(one.verdict in COMPARED for one in self.verdicts)

    @property
    def is_nothing_judged(self) -> bool:
        """Whether no cell of those that both sides measured could be told: too few launches."""
        told = [one.verdict for one in self.verdicts if one.verdict in COMPARED]
        return self.refused is not None and set(told) <= {"inconclusive"}

    @property
    def is_suite_slower(self) -> bool:
        """Whether the suite as a whole became slower."""
        return self.suite is not None and self.suite.is_slower


def exit_code(comparison: Comparison, *, strict: bool = False, allow_missing: bool = False) -> int:
    """The exit code of a gate: the gravest of what was found.

    Not comparable 4, nothing compared 5; a regression or a wrong result 1, a broken cell 5, a
    missing one 4; under `strict` what could not be told 3.
    """
    if blocking(comparison.reasons):
        return NOT_COMPARABLE
    failing = [one for one in comparison.verdicts if one.fails]
    if comparison.is_suite_slower or any(v.verdict == "regressed" or v.is_wrong for v in failing):
        return REGRESSED
    if comparison.compared == 0 or any(one.verdict == "broken" for one in failing):
        return BROKEN
    if any(one.verdict == "missing" for one in failing) and not allow_missing:
        return NOT_COMPARABLE
    if comparison.refused:
        return USAGE
    unclear = ("inconclusive", "incomparable")
    blocked = [one for one in comparison.verdicts if one.tier == "blocking"]
    if strict and any(one.verdict in unclear for one in blocked):
        return INCONCLUSIVE
    return PASS


def ordered(verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """The worst first: by verdict, what fails before what may stay, then by ratio."""

    def key(one: Verdict) -> tuple:
        size = one.ratio or 1.0
        faster_first = size if one.verdict == "improved" else -size
        return (VERDICTS.index(one.verdict), not one.fails, faster_first, one.name)

    return tuple(sorted(verdicts, key=key))
