"""What `python -m impls` prints: implementations, a conformance run, within 80 columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from impls.interface.attention import NEEDS, Implementation, reasons_against
from impls.interface.conformance import Conformance
from impls.interface.conformance_trial import Outcome
from impls.interface.problem import SOFTMAX, Problem

RAISED = "raised "
_A_NUMBER = ": off by "
_MOST_SHOWN = 8
_ABSENT = " not installed"
_SHORT = {"float32": "f32", "bfloat16": "bf16", "float16": "f16", "float64": "f64"}


def supports(implementation: Implementation, device: str) -> list[str]:
    """What it supports on `device`, in a few words: dtypes, then the rest.

    Each word is one tiny problem that it has no more against than against the plain one.
    """
    can = implementation.capabilities
    plain = Problem(B=1, T_q=16, T_kv=16, H=2, d_h=64, operator=implementation.operator)
    plain = plain.with_(dtype=can.dtypes[0])
    anyway = set(reasons_against(implementation, plain, device))

    def has(problem: Problem, needs: Sequence[str] = ()) -> bool:
        return not set(reasons_against(implementation, problem, device, needs)) - anyway

    words = [_SHORT[dtype] for dtype in can.dtypes]
    words += [need for need in NEEDS if has(plain, [need])]
    words += [
        word
        for word, changed in (
            ("causal", plain.with_(causal=True)),
            ("causal T_q ≠ T_kv", plain.with_(causal=True, T_q=8)),
            ("window", plain.with_(causal=True, window=4)),
            ("GQA", plain.with_(H_kv=1)),
            ("d_v ≠ d_h", plain.with_(d_v=32)),
            *_with_lengths(plain),
        )
        if has(changed)
    ]
    words += [f"d_h ≤ {can.max_d_h}"] if can.max_d_h is not None else []
    words += [f"d_h % {can.d_h_multiple_of} = 0"] if can.d_h_multiple_of > 1 else []
    return words


def _with_lengths(plain: Problem) -> list[tuple[str, Problem]]:
    if plain.operator != SOFTMAX:
        return []
    lengths = Problem.of_lengths((16, 8), H=plain.H, d_h=plain.d_h, dtype=plain.dtype)
    return [("variable lengths", lengths)]


def print_implementations(
    console: Console, rows: Sequence[tuple[Implementation, str, list[str]]], device: str
) -> None:
    """A table of (implementation, version, reasons why it is not available here).

    The version that most have stands once, below.
    """
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("implementation", no_wrap=True)
    table.add_column("here")
    # What is to be typed is never cut.
    table.add_column("supports, or why it is not available", ratio=1, overflow="fold")
    installed = Counter(v for _, v, _ in rows if not v.endswith(_ABSENT)).most_common(1)
    usual = installed[0][0] if installed else ""
    for implementation, version, reasons in rows:
        text = "; ".join(reasons) if reasons else ", ".join(supports(implementation, device))
        if implementation.operator != SOFTMAX:
            text = f"another operator, {implementation.operator}: {text}"
        if version != usual and not version.endswith(_ABSENT):
            text = f"{version}: {text}"
        here = "no" if reasons else "yes"
        table.add_row(implementation.name, here, escape(text))
    console.print(table)
    if usual:
        console.print(f"{usual}, where no other version is told", markup=False)


def print_conformance(
    console: Console, found: Sequence[Conformance], unavailable: dict[str, list[str]]
) -> None:
    """Print a row per implementation, then what was wrong, is not supported, or is absent."""
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("implementation", no_wrap=True)
    table.add_column("on", no_wrap=True)
    for name in ("passed", "wrong", "unsupported"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("NaN safe", no_wrap=True)
    table.add_column("repeats", no_wrap=True)
    table.add_column("time_s", justify="right", no_wrap=True)
    for one in found:
        table.add_row(
            one.implementation,
            one.device if one.where == "device" else one.where,
            *(str(len(one.of(status))) for status in ("passed", "wrong", "unsupported")),
            one.properties.get("masked_garbage_safe", "unknown"),
            one.properties.get("bitwise_repeatable", "unknown"),
            f"{one.elapsed_s:.1f}",
        )
    console.print(table)
    for one in found:
        _print_wrong(console, one)
    for one in found:
        counted = Counter(reason for o in one.of("unsupported") for reason in o.reasons)
        if counted:
            told = "; ".join(f"{reason} ({n})" for reason, n in counted.most_common(8))
            more = "; …" if len(counted) > 8 else ""
            console.print(f"\n{one.implementation} does not support: {told}{more}", markup=False)
    if unavailable:
        console.print("\nnot available here:")
    for name, reasons in unavailable.items():
        console.print(f"  {name}: {'; '.join(reasons)}", markup=False)


def _print_wrong(console: Console, found: Conformance) -> None:
    """What several checks say in the same words once, with their number; then a line each."""
    alike: dict[str, list[Outcome]] = {}
    for outcome in found.of("wrong"):
        first, *_ = outcome.reasons or ("no reason was given",)
        alike.setdefault(first, []).append(outcome)
    repeated = {
        reason: outcomes
        for reason, outcomes in alike.items()
        if reason.startswith(RAISED) or (len(outcomes) > 1 and _A_NUMBER not in reason)
    }
    numbers = [o for reason, those in alike.items() if reason not in repeated for o in those]
    if alike:
        console.print(f"\nWRONG {found.implementation}", style="bold", markup=False)
    for reason, outcomes in list(repeated.items())[:_MOST_SHOWN]:
        count = f"{len(outcomes)} checks, the first" if len(outcomes) > 1 else "in"
        told = f"{reason} ({count} {outcomes[0].ask} of {outcomes[0].case})"
        console.print(Padding(Text(told), (0, 0, 0, 2)))
    if len(repeated) > _MOST_SHOWN:
        console.print(f"  … and {len(repeated) - _MOST_SHOWN} other reasons: --json lists all")
    for outcome in numbers[:_MOST_SHOWN]:
        first, *others = outcome.reasons or ("no reason was given",)
        more = f" (and {len(others)} more)" if others else ""
        told = f"{outcome.ask} of {outcome.case}: {first}{more}"
        console.print(Padding(Text(told), (0, 0, 0, 2)))
    if len(numbers) > _MOST_SHOWN:
        console.print(f"  … and {len(numbers) - _MOST_SHOWN} more like these: --json lists all")


def summary(found: Sequence[Conformance], unavailable: dict[str, list[str]]) -> str:
    """The run in one line."""
    counts = {
        status: sum(len(one.of(status)) for one in found)
        for status in ("passed", "wrong", "unsupported")
    }
    refused = [one.implementation for one in found if not one.of("passed")]
    one_or_more = "implementation" if len(found) == 1 else "implementations"
    line = (
        f"{len(found)} {one_or_more} checked: {counts['passed']} checks passed, "
        f"{counts['wrong']} wrong, {counts['unsupported']} unsupported"
    )
    line += f"; nothing passed of {', '.join(refused)}" if refused else ""
    return line + (f"; {len(unavailable)} not available here" if unavailable else "")
