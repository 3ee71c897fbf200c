"""Static profiles judged against accepted ones: exactly where the keys agree, else in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from results.static_baseline import Accepted, accepted
from results.static_difference import Difference, differences
from results.static_profile import StaticProfile, arch_number, assignments
from results.static_promises import breaches

# Every verdict, the worst first, with the exit code it leads to. A key that the other side lacks
# is never passed over: it cannot be compared.
VERDICTS = {
    "regressed": 1,
    "broken": 5,
    "missing": 4,
    "new": 4,
    "incomparable": 4,
    "improved": 0,
    "unchanged": 0,
}
# Kernel, architecture, dtype and d_h of a subject.
_WITHOUT_CONSTANTS = 4
# Where several verdicts meet: a regression is certain, whatever else could not be looked at.
_CODES = (1, 5, 4, 0)


@dataclass(frozen=True)
class Judgement:
    """The verdict on one profile.

    Attributes:
        reasons: why, in words; the worst first. Empty where nothing changed.
        differences: every gated figure that is not the same.
        before, after: what was accepted and what was found, where there is one.
    """

    verdict: str
    reasons: tuple[str, ...]
    differences: tuple[Difference, ...]
    before: Accepted | None
    after: StaticProfile | None

    @property
    def code(self) -> int:
        """The exit code it leads to."""
        return VERDICTS[self.verdict]

    @property
    def of(self) -> Accepted | StaticProfile:
        """Whose verdict it is."""
        one = self.after or self.before
        assert one is not None
        return one


def judge(profiles: Sequence[StaticProfile], baseline: Sequence[Accepted]) -> list[Judgement]:
    """A verdict for each profile and for each accepted one that has none, the worst first.

    Profiles meet in this order: the same key; from the same compiler the same subject, else the
    same kernel, architecture, dtype and d_h, where the launcher's block or constants were changed
    and both are the only ones left of theirs; the same subject and block from another compiler.
    What is left is new, or missing. Accepted profiles of another compiler than the run's are no
    part of the comparison.
    """
    by_key = {one.key: one for one in baseline}
    judged: list[Judgement] = []
    strangers: list[StaticProfile] = []
    for profile in profiles:
        before = by_key.pop(profile.key, None)
        if before is None:
            strangers.append(profile)
        else:
            judged.append(_same_key(before, profile))
    rest = list(by_key.values())
    for profile in strangers:
        before = _another_block(profile, strangers, rest)
        if before is not None:
            rest.remove(before)
            judged.append(_changed_block(before, profile))
        elif (before := _another_compiler(profile, rest)) is not None:
            judged.append(_changed_compiler(before, profile))
        else:
            judged.append(_new(profile))
    judged += [_missing(one) for one in rest if belongs(one, profiles)]
    return sorted(judged, key=_worst_first)


def exit_code(judged: Iterable[Judgement]) -> int:
    """0 pass, 1 regressed, 4 not comparable, 5 broken or nothing compared."""
    codes = {judgement.code for judgement in judged}
    return next((code for code in _CODES if code in codes), 5)


def counts(judged: Iterable[Judgement]) -> dict[str, int]:
    """Judgements by verdict, the worst first, without zeros."""
    counted = Counter(judgement.verdict for judgement in judged)
    return {verdict: counted[verdict] for verdict in VERDICTS if counted[verdict]}


def _same_key(before: Accepted, profile: StaticProfile) -> Judgement:
    if (failed := _failed(before, profile)) is not None:
        return failed
    found = differences(before, accepted(profile))
    broken = _newly_broken(before, profile)
    worse = [d.text for d in found if d.is_worse]
    if broken or worse:
        better = [d.text for d in found if not d.is_worse]
        return Judgement("regressed", (*broken, *worse, *better), found, before, profile)
    verdict = "improved" if found else "unchanged"
    return Judgement(verdict, tuple(d.text for d in found), found, before, profile)


def _changed_block(before: Accepted, profile: StaticProfile) -> Judgement:
    """Red either way: regressed where spills or the bound are worse, else new."""
    pairs = {"constants": (before.constants, profile.constants)}
    pairs["block"] = (before.block, profile.block)
    changes = {word: _changes(*pair) for word, pair in pairs.items()}
    change = ", ".join(f"{word} {text}" for word, text in changes.items() if text)
    if (failed := _failed(before, profile, change)) is not None:
        return failed
    found = differences(before, accepted(profile))
    broken = _newly_broken(before, profile)
    worse = [d.text for d in found if d.is_worse and d.figure.holds_for_other_blocks]
    others = [d.text for d in found if d.text not in worse]
    verdict = "regressed" if broken or worse else "new"
    return Judgement(verdict, (change, *broken, *worse, *others), found, before, profile)


def _changed_compiler(before: Accepted, profile: StaticProfile) -> Judgement:
    """What holds whatever compiled it is held; the rest is told and cannot be judged."""
    names = ("triton", "ptxas")
    then, now = ({name: getattr(one, name) for name in names} for one in (before, profile))
    change = f"another compiler, {_changes(then, now)}"
    if (failed := _failed(before, profile, change)) is not None:
        return failed
    found = differences(before, accepted(profile))
    broken = _newly_broken(before, profile)
    worse = [d.text for d in found if d.is_worse and d.name == "overlap_percent"]
    others = [d.text for d in found if d.text not in worse]
    verdict = "regressed" if broken or worse else "incomparable"
    return Judgement(verdict, (change, *broken, *worse, *others), found, before, profile)


def _new(profile: StaticProfile) -> Judgement:
    if (failed := _failed(None, profile)) is not None:
        return failed
    broken = _newly_broken(None, profile)
    verdict = "regressed" if broken else "new"
    return Judgement(verdict, (*broken, "not in the baseline"), (), None, profile)


def _missing(before: Accepted) -> Judgement:
    return Judgement("missing", ("in the baseline, not in the run",), (), before, None)


def _failed(before: Accepted | None, profile: StaticProfile, *context: str) -> Judgement | None:
    """A profile that has no figures: the compiler's refusal is a regression, a crash is not one."""
    if profile.status == "ok":
        return None
    verdict = "regressed" if profile.status == "error" else "broken"
    first = profile.reasons[0].strip().splitlines()[0] if profile.reasons else "no reason"
    said = f"{profile.status}: {first}"
    return Judgement(verdict, (*context, said), (), before, profile)


def _newly_broken(before: Accepted | None, profile: StaticProfile) -> list[str]:
    known = before.breaks if before else ()
    return [breach.text for breach in breaches(profile) if breach.promise not in known]


def _another_block(
    profile: StaticProfile, strangers: Sequence[StaticProfile], rest: Sequence[Accepted]
) -> Accepted | None:
    if not profile.is_default:
        return None
    for likeness in (len(profile.subject), _WITHOUT_CONSTANTS):
        where = (*profile.subject[:likeness], profile.triton, profile.ptxas)
        theirs = [o for o in rest if (*o.subject[:likeness], o.triton, o.ptxas) == where]
        ours = [o for o in strangers if (*o.subject[:likeness], o.triton, o.ptxas) == where]
        if len(theirs) == len(ours) == 1:
            return theirs[0]
    return None


def _another_compiler(profile: StaticProfile, rest: Sequence[Accepted]) -> Accepted | None:
    """The one of the newest Triton, as names sort, where several compilers were accepted."""
    same = [
        one
        for one in rest
        if one.subject == profile.subject
        and assignments(one.block) == assignments(profile.block)
        and (one.triton, one.ptxas) != (profile.triton, profile.ptxas)
    ]
    return max(same, key=lambda one: (one.triton, one.ptxas), default=None)


def belongs(one: Accepted, profiles: Sequence[StaticProfile]) -> bool:
    """Whether the run should have it: its Triton is the run's, its ptxas not another one."""
    same_subject = [p for p in profiles if p.subject == one.subject]
    is_another_ptxas = bool(same_subject) and all(p.ptxas != one.ptxas for p in same_subject)
    return one.triton in {p.triton for p in profiles} and not is_another_ptxas


def _changes(before: Mapping[str, object], after: Mapping[str, object]) -> str:
    """What changed, "num_warps 8 → 4, BLOCK_KV 64 → 128" for instance."""
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return ", ".join(
        f"{name} {before.get(name, 'none')} → {after.get(name, 'none')}" for name in names
    )


def _worst_first(judgement: Judgement) -> tuple:
    """By verdict; then what does not compile, broken promises, spills in the loop, the bound."""
    by = {d.name: d.growth for d in judgement.differences}
    has_figures = judgement.after is not None and judgement.after.status == "ok"
    return (
        [*VERDICTS].index(judgement.verdict),
        has_figures,
        judgement.after is None or not breaches(judgement.after),
        -by.get("loop_spill_stores", 0) - by.get("loop_spill_loads", 0),
        by.get("overlap_percent", 0),
        -by.get("spill_store_bytes", 0),
        -by.get("registers", 0),
        -sum(d.is_worse for d in judgement.differences),
        judgement.of.kernel,
        arch_number(judgement.of.arch),
        judgement.of.d_h or 0,
    )
