"""The page of a static run: what kernels compile to, and no time, roofline or ceiling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from markupsafe import Markup

from reports.figures import Drawn
from reports.inline_svg import Mark, inline_svg
from reports.next_steps import repeat_lines
from reports.page import Told, flat, template
from reports.page_rows import Fields, Row, choices, places
from results.findings import MOST, findings
from results.run import Run
from results.static_profile import STATIC_STATUSES, StaticProfile
from results.static_promises import breaches
from results.static_table import (
    arch_order,
    block_text,
    compilers_text,
    limit_text,
    notes,
    reading_order,
    spills_text,
    static_columns,
)

TEMPLATE = "static_page.html.jinja"
_FIELDS: Fields[StaticProfile] = {
    "kernel": lambda p: p.kernel,
    "arch": lambda p: p.arch,
    "d_h": lambda p: p.d_h,
    "dtype": lambda p: p.dtype,
    "status": lambda p: p.status,
}


def static_page(run: Run, figures: Sequence[Drawn]) -> str:
    """The whole HTML page of a static run as text."""
    ordered = reading_order(run.profiles)
    columns = static_columns(run.profiles)
    counted = Counter(p.status for p in run.profiles)
    marks = {
        f"point-{p.cell}-static": Mark(_tooltip(p), row=number)
        for number, p in enumerate(ordered, start=1)
    }
    return template(TEMPLATE).render(
        run=run,
        header=run.header,
        device=run.header.device,
        archs=arch_order(p.arch for p in ordered),
        compilers=compilers_text(run.profiles),
        findings=[
            Told(finding.sentence, figures[0].name if figures else "") for finding in findings(run)
        ],
        most=MOST,
        ceiling_doubt="",
        disturbance="",
        figures=[(f, Markup(inline_svg(f, marks))) for f in figures],
        columns=columns,
        flags_at=len(columns),
        n_first=len(columns),
        rows=[
            Row(tuple(column.show(p) for column in columns), place, "bad" if _is_bad(p) else "")
            for p, place in zip(ordered, places(ordered, _FIELDS), strict=True)
        ],
        choices=choices(ordered, _FIELDS),
        sorted_by=_FIELDS,
        text_hint="forward 128",
        baselines=(),
        followers={},
        says_more=False,
        owners=(),
        baseline_notes=(),
        table_notes=(),
        statuses=[(status, counted[status]) for status in STATIC_STATUSES],
        left_out="",
        wrong=[],
        reasons=[f"{p.kernel} {p.arch}: {notes(p)[0]}" for p in ordered if p.status != "ok"],
        environment=flat(run.header.environment),
        repeat=repeat_lines(run),
        settings=flat(run.header.settings.all),
    )


def _is_bad(profile: StaticProfile) -> bool:
    return profile.status != "ok" or bool(breaches(profile))


def _tooltip(profile: StaticProfile) -> str:
    size = f" d_h={profile.d_h}" if profile.d_h else ""
    words = [f"{profile.kernel}{size} {profile.arch}, {block_text(profile)}"]
    if profile.bound and profile.resources:
        low, high = profile.bound.no_overlap_percent, profile.bound.overlap_percent
        words.append(f"{low:.1f} to {high:.1f} % limited by {limit_text(profile)}")
        words.append(f"{profile.resources.registers} registers, spills {spills_text(profile)}")
    return ": ".join(words[:2]) + "".join(f"; {word}" for word in words[2:])
