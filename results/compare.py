"""Two sides set against each other, cell by cell: from launches and rules to verdicts."""

from __future__ import annotations

import datetime
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from results.comparable import Reason, blocking, comparable
from results.gate import Judged, judge
from results.inference import Floats, ratio_error
from results.plan import Plan, PlanRefused, check_plan, fitted
from results.rules import Rules
from results.side import ANY, NOT_MEASURED, Key, Side, SideCell
from results.verdict import Comparison, Verdict, ordered

# From here on "too noisy" is the reason, below it something else was.
_SEEN = Plan().seen


@dataclass(frozen=True)
class Asked:
    """How to compare.

    Attributes:
        allow: fields in which the runs may differ.
        spreads: the standard deviation of a cell's log times between launches, by cell name, as
            this machine's A/A launches showed it; a floor is at least twice what it does to a
            ratio.
        cumulative: against the oldest baseline: the rules' `cumulative` thresholds hold.
        is_screen: the launches only look for suspects, which wait to be confirmed.
        is_single: all launches judge every cell, none screens; a baseline is measured once.
        today: the day on which waivers must hold.
    """

    rules: Rules = field(default_factory=Rules)
    allow: Collection[str] = ()
    spreads: Mapping[str, float] = field(default_factory=dict)
    cumulative: bool = False
    is_screen: bool = False
    is_single: bool = False
    today: datetime.date = field(default_factory=datetime.date.today)


def compare(base: Side, head: Side, asked: Asked | None = None) -> Comparison:
    """Every cell's verdict, unless the runs cannot be compared; then the reasons alone."""
    asked = asked or Asked()
    result = Comparison(base.name, head.name, len(base.launches), len(head.launches))
    reasons = _reasons(base, head, asked.allow)
    result = replace(result, reasons=tuple(reasons))
    if blocking(reasons):
        return result
    verdicts, timed = _by_presence(base, head)
    judged, refused, notes = _judge(base, head, timed, asked)
    is_exact = not any(reason.is_allowed for reason in reasons)
    verdicts += _by_time(base, head, timed, judged, is_exact=is_exact)
    return replace(
        result,
        verdicts=ordered([_ruled(one, asked) for one in verdicts]),
        suite=judged.suite if judged else None,
        refused=refused,
        notes=(*notes, *_notes(base, head)),
    )


def _reasons(base: Side, head: Side, allow: Collection[str]) -> list[Reason]:
    """In what any run differs from base's first; each difference once."""
    first = base.headers[0]
    found: dict[tuple[str, str, str], Reason] = {}
    for header in (*base.headers[1:], *head.headers):
        for one in comparable(first, header, allow):
            found.setdefault((one.field, repr(one.base), repr(one.head)), one)
    return list(found.values())


def _by_presence(base: Side, head: Side) -> tuple[list[Verdict], list[Key]]:
    """Verdicts that need no time, and the cells that both sides timed."""
    verdicts, timed = [], []
    for key in {**base.cells, **head.cells}:
        before, after = base.cells.get(key), head.cells.get(key)
        told = _presence(before, after)
        if told is None:
            timed.append(key)
        elif told[0]:
            name = (before or after).name  # type: ignore[union-attr]  # the key is from one of them
            is_wrong = after is not None and after.broken == "wrong"
            verdicts.append(
                Verdict(
                    name,
                    told[0],
                    base_launches=len(before.times_s) if before else 0,
                    head_launches=len(after.times_s) if after else 0,
                    reasons=(told[1],),
                    is_wrong=is_wrong,
                )
            )
    return verdicts, timed


def _presence(before: SideCell | None, after: SideCell | None) -> tuple[str, str] | None:
    """A verdict and why, from who measured it; ("", "") where nobody did, None where both did."""
    was, is_ = before is not None and before.is_measured, after is not None and after.is_measured
    if not is_ and not was:
        return ("", "")
    if after is not None and after.broken:
        return ("broken", f"{_statuses(after)}: {after.reason or 'no reason was written'}")
    for where, one in (("base", before), ("head", after)):
        if one is not None and one.is_left_out:
            return ("incomparable", f"{where}: {_statuses(one)}: {one.reason or 'not planned'}")
    if not is_ or after is None:
        why = f"{_statuses(after)}: {after.reason}" if after and after.reason else "not in head"
        return ("missing", why)
    if not was or before is None:
        why = f"base: {_statuses(before)}" if before else "not in base"
        return ("new", why)
    for where, one in (("base", before), ("head", after)):
        if not one.times_s:
            return ("incomparable", f"{where}: {_statuses(one)}")
    return None


def _statuses(one: SideCell) -> str:
    return ", ".join(f"{n} {status}" for status, n in one.statuses.items())


def _judge(
    base: Side, head: Side, timed: list[Key], asked: Asked
) -> tuple[Judged | None, str | None, tuple[str, ...]]:
    """What the launches show, or why they cannot; and what was done about the plan."""
    if not timed:
        return None, None, ()
    before, after = matrix(base, timed), matrix(head, timed)
    plan = asked.rules.plan
    if asked.is_single:
        plan = replace(plan, screen=0)
    try:
        if asked.is_screen:
            plan = replace(plan, screen=min(len(before), len(after)))
            check_plan(plan, len(timed))
        else:
            plan = fitted(plan, len(before), len(after), len(timed))
    except PlanRefused as error:
        return None, str(error), ()
    floors = _floors(base, head, timed, plan, asked)
    launches = (base.launches, head.launches)
    note = f"launches of base and head: {len(before)} and {len(after)}"
    if plan.screen:
        rest = "none yet to confirm" if asked.is_screen else f"{plan.confirm} confirm"
        note = f"launches a side: {plan.screen} screen, {rest}"
    return judge(before, after, plan, floor=floors, launches=launches), None, (note,)


def matrix(side: Side, keys: Sequence[Key]) -> Floats:
    """The times of some cells, (launches, cells) seconds; NaN where a launch has none."""
    times = np.full((len(side.launches), len(keys)), np.nan)
    rows = {launch: row for row, launch in enumerate(side.launches)}
    for column, key in enumerate(keys):
        for launch, time_s in side.cells[key].times_s.items():
            times[rows[launch], column] = time_s
    return times


def _floors(base: Side, head: Side, timed: list[Key], plan: Plan, asked: Asked) -> Floats:
    floors = []
    for key in timed:
        cell, base_s = base.cells[key], _median(base.cells[key])
        asks = asked.rules.threshold_of(cell.name, cumulative=asked.cumulative)
        floor = asks.as_ratio(base_s)
        if "cuda" in key[-1]:
            floor = max(floor, asked.rules.cuda_floor.as_ratio(base_s))
        if spread := asked.spreads.get(cell.name):
            error = ratio_error(np.array([spread]), plan.confirm, plan.confirm)[0]
            floor = max(floor, math.exp(2 * error))
        floors.append(floor)
    return np.array(floors)


def _by_time(
    base: Side, head: Side, timed: list[Key], judged: Judged | None, *, is_exact: bool
) -> list[Verdict]:
    verdicts = []
    for i, key in enumerate(timed):
        before, after = base.cells[key], head.cells[key]
        base_s, head_s = _median(before), _median(after)
        one = Verdict(
            before.name,
            "inconclusive",
            base_launches=len(before.times_s),
            head_launches=len(after.times_s),
            base_s=base_s,
            head_s=head_s,
            ratio=head_s / base_s,
        )
        if judged is not None:
            one = _of_launches(one, judged, i)
        verdicts.append(_counted(one, before, after, decides=is_exact and key[0] != ANY))
    return verdicts


def _of_launches(one: Verdict, judged: Judged, i: int) -> Verdict:
    found = judged.found
    slower, faster = bool(judged.is_slower[i]), bool(judged.is_faster[i])
    seen, floor = float(judged.smallest_seen[i]), float(judged.floor[i])
    verdict, reasons = str(judged.verdict[i]), ()
    if verdict == "inconclusive" and slower and not judged.is_confirmed[i]:
        reasons = ("seems slower and was not confirmed: measure it in fresh launches",)
    elif verdict == "inconclusive" and judged.found.low[i] > 1 and slower:
        reasons = (f"slower, perhaps by the floor of {_percent(floor)}",)
    elif verdict == "inconclusive" and slower and seen <= _SEEN:
        reasons = ("seems slower and has too few fresh launches to tell: measure it again",)
    elif verdict == "inconclusive":
        what = f"only from {_percent(seen)} on" if math.isfinite(seen) else "nothing: 1 launch"
        reasons = (f"too noisy: could have seen {what}",)
    return replace(
        one,
        verdict=verdict,
        base_launches=int(found.base_n[i]),
        head_launches=int(found.head_n[i]),
        ratio=_known(found.ratio[i]),
        low=_known(found.low[i]) or None,
        high=_known(found.high[i]),
        p=_known(judged.p[i]),
        floor=floor,
        smallest_seen=_known(seen),
        suspect="slower" if slower and not faster else "faster" if faster and not slower else None,
        is_confirmed=bool(judged.is_confirmed[i]),
        reasons=reasons,
    )


def _counted(one: Verdict, before: SideCell, after: SideCell, *, decides: bool) -> Verdict:
    """The verdict with what was counted: exact, so that any difference is one.

    Another implementation or another torch may count otherwise and be no worse for it: then the
    difference is told and decides nothing.
    """
    worse, better = [], []
    for name, now in after.counters.items():
        then = before.counters.get(name)
        if then is None or now is None or now == then:
            continue
        (worse if now > then else better).append(f"{name} {then} → {now}")
    if not decides:
        return replace(one, reasons=(*one.reasons, *worse, *better))
    if worse:
        return replace(one, verdict="regressed", reasons=(*worse, *better, *one.reasons))
    if better:
        is_only_that = one.verdict == "unchanged"
        verdict = "improved" if is_only_that else one.verdict
        return replace(one, verdict=verdict, reasons=(*one.reasons, *better))
    return one


def _ruled(one: Verdict, asked: Asked) -> Verdict:
    """The verdict with its tier, and its waiver where it would fail."""
    one = replace(one, tier=asked.rules.tier_of(one.name))
    if one.verdict == "missing":
        return replace(one, waiver=asked.rules.why_removed(one.name))
    if not one.fails or one.is_wrong:
        return one
    waiver, note = asked.rules.waiver_of(one.name, asked.today)
    return replace(one, waiver=waiver, reasons=(*one.reasons, *([note] if note else [])))


def _notes(base: Side, head: Side) -> list[str]:
    notes = []
    for where, side in (("base", base), ("head", head)):
        rows = sum(len(one.times_s) for one in side.cells.values())
        tried = sum(
            n
            for one in side.cells.values()
            for status, n in one.statuses.items()
            if status not in (*NOT_MEASURED, "ok")
        )
        if tried:
            notes.append(f"{where}: {rows} rows entered; flagged or failed were {tried}")
    return notes


def _median(one: SideCell) -> float:
    return float(np.median(list(one.times_s.values())))


def _percent(ratio: float) -> str:
    return f"+{100 * (ratio - 1):.1f} %"


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
