"""The page: findings, figures, table and all that is needed to believe or repeat them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from reports.columns import ratio_notes
from reports.figures import Drawn
from reports.followers import against, baselines, packed
from reports.inline_svg import Mark, inline_svg, marked_points, marks_of
from reports.legend import looks_of
from reports.next_steps import repeat_lines
from reports.page_rows import CELL_FIELDS, cell_rows, choices
from reports.points import mark_of, points
from reports.rows import html_rows, left_out, reasons, status_counts
from reports.style import CLOCK_NAMES, LEVEL_NAMES, plural, quantity
from results.disturbance import disturbance
from results.finding import Finding
from results.findings import MOST, findings
from results.interval import MEANING
from results.phrases import DTYPE_NAMES
from results.run import Ceilings, Run
from results.schema import Cell
from results.trouble import advice, ceiling_doubt

TEMPLATE = "page.html.jinja"
MANY_POINTS = 200

FLAG_MEANINGS = {
    "host_bound": "launching took longer than the work: the host was timed",
    "near_floor": "under three times what the clock shows for nothing",
    "throttled": "the device lowered its clock meanwhile",
    "above_ceiling": "impossible: above the measured peak by more than 3 %",
    "low_n": "fewer than ten samples before the budget ended",
    "unsteady": "samples scattered: the median is known to no better than ±5 %",
    "contended": "something else used the machine meanwhile",
    "swapped": "a megabyte or more was read back from swap meanwhile",
    "warm": "still getting faster when sampling began",
    "approximate": "computed less exactly by design: its error stands beside its time",
}


def page(
    run: Run, figures: Sequence[Drawn], others: Mapping[str, Sequence[Drawn]] | None = None
) -> str:
    """The whole HTML page as text; what a run declares is escaped, only our own SVG is not.

    `others` are the figures of ratios to other baselines, see `reports.followers`.
    """
    columns, shown = html_rows(run)
    cells = [cell for cell, _ in shown]
    drawn, _ = points(run.cells)
    row_of = {cell.key: number for number, cell in enumerate(cells, start=1)}
    # A point stands for several launches: the row of the first is its row.
    first = {
        mark_of(c.cell, c.suite, c.series): row_of[c.key]
        for c in sorted(cells, key=lambda c: -c.launch)
    }
    looked = looks_of(run)
    owners = sorted({point.implementation for point in drawn})
    marks = marks_of(drawn, first)
    followers = {
        name: _follower(against(run, name), own, figures, row_of, marks, owners)
        for name, own in (others or {}).items()
    }
    return template(TEMPLATE).render(
        run=run,
        header=run.header,
        device=device_name(run),
        findings=told(findings(run), figures, row_of),
        most=MOST,
        ceiling_doubt=ceiling_doubt(run),
        disturbance=disturbance(run),
        figures=[(f, Markup(svg)) for f, svg in _drawings(figures, marks, owners)],
        says_more=False,
        columns=columns,
        flags_at=1 + [column.key for column in columns].index("flags"),
        n_first=sum(column.is_first for column in columns),
        rows=cell_rows(shown),
        choices=choices(cells, CELL_FIELDS),
        sorted_by=CELL_FIELDS,
        text_hint="T=4096 causal",
        baselines=baselines(run),
        followers=followers,
        owners=[(name, looked[name].colour) for name in owners],
        statuses=status_counts(run),
        left_out=left_out(run),
        wrong=reasons(cell for cell in run.cells if cell.status == "wrong"),
        reasons=reasons(cell for cell in run.cells if cell.timing is None),
        baseline_notes=ratio_notes(run),
        table_notes=[*advice(run), *_flags_told(cells), *_in_full(run, cells)],
        interval=MEANING,
        ceilings=ceiling_rows(run.header.ceilings),
        ceiling_origin=ceiling_origin(run.header.ceilings),
        environment=flat(run.header.environment),
        repeat=repeat_lines(run),
        settings=flat(run.header.settings.all),
        flags=FLAG_MEANINGS,
    )


def _follower(
    run: Run,
    own: Sequence[Drawn],
    figures: Sequence[Drawn],
    row_of: Mapping[tuple[str, int, str, str], int],
    marks: Mapping[str, Mark],
    owners: Sequence[str],
) -> str:
    """The findings and the figures of ratios as they are against the baseline of this run."""
    drawn = {figure.name: figure for figure in own}
    shown = [drawn.get(figure.name, figure) for figure in figures]
    sentences = told(findings(run), shown, row_of)
    parts = {"findings": template("findings.html.jinja").render(findings=sentences, most=MOST)}
    silent = {id: replace(mark, words="") for id, mark in marks.items()}
    for place, figure in enumerate(shown):
        if figure.name in drawn:
            parts[figure.name] = inline_svg(figure, silent, owners, place)
    return packed(parts)


def _flags_told(cells: Sequence[Cell]) -> list[str]:
    """The flags that the table has, each with its meaning and how many rows have it."""
    counted = Counter(flag for cell in cells for flag in cell.flags)
    return [
        f"{flag} ({plural(n, 'row')}): {FLAG_MEANINGS[flag]}"
        for flag, n in counted.items()
        if flag in FLAG_MEANINGS
    ]


def _in_full(run: Run, cells: Sequence[Cell]) -> list[str]:
    """How one row is told in full; nothing where there is no row."""
    does = "One row in full, its samples in order and the command that measures it again"
    command = f"python -m reports explain {run.name} 'IMPLEMENTATION PROBLEM'"
    return [f"{does}: {command}, as they stand in the row."] if cells else []


def _drawings(
    figures: Sequence[Drawn], marks: Mapping[str, Mark], owners: Sequence[str]
) -> Iterator[tuple[Drawn, str]]:
    """Each figure as it stands in the page.

    In large runs a point has its words in the first figure alone, for readers without scripts;
    with them the words are those of its row.
    """
    is_large = len(marks) > MANY_POINTS
    told: set[str] = set()
    for place, figure in enumerate(figures):
        own = {id: replace(mark, words="") if id in told else mark for id, mark in marks.items()}
        yield figure, inline_svg(figure, own, owners, place)
        told |= marked_points(figure) if is_large else set()


@dataclass(frozen=True)
class Told:
    """A finding as the page tells it: with its figure, and its rows in the table."""

    sentence: str
    figure: str = ""
    rows: tuple[int, ...] = ()


def told(
    found: Sequence[Finding],
    figures: Sequence[Drawn],
    row_of: Mapping[tuple[str, int, str, str], int],
) -> list[Told]:
    """Each finding with its rows, and the figure that draws most of its cells."""
    drawn = {figure.name: marked_points(figure) for figure in figures}
    result: list[Told] = []
    for one in found:
        ids = {mark_of(cell, suite, series) for cell, _, suite, series in one.cells}
        asked = {suite for _, _, suite, _ in one.cells}

        def fitness(
            figure: Drawn, ids: set[str] = ids, asked: set[str] = asked, about: str = one.about
        ) -> tuple[bool, bool, int, int]:
            marked = drawn[figure.name]
            # A figure whose marks are no points, a breakdown's bars, is known by its suite.
            n_shown = len(ids & marked) or int(not marked and bool(asked & {*figure.suites}))
            is_about = bool(about) and figure.about == about
            return (n_shown > 0, n_shown > 0 and is_about, n_shown, -len(marked))

        best = max(figures, key=fitness, default=None)
        name = best.name if best and fitness(best)[0] else ""
        rows = sorted({row_of[key] for key in one.cells if key in row_of})
        result.append(Told(one.sentence, name, tuple(rows)))
    return result


def template(name: str) -> jinja2.Template:
    """A template of this folder; what it is given is escaped unless it is `Markup`."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template(name)


def device_name(run: Run) -> str:
    """The device as its ceilings name it, or just its kind."""
    ceilings = run.header.ceilings
    return (ceilings.device_name if ceilings else None) or run.header.device


def ceiling_rows(ceilings: Ceilings | None) -> list[tuple[str, str, str, str]]:
    """Each ceiling with what reached it: (what, bound, by, further figures)."""
    if ceilings is None:
        return []
    rows: list[tuple[str, str, str, str]] = []
    for dtype, gemm in ceilings.gemm.items():
        others = [
            f"{name} {quantity(rate.spaced_flop_per_s or rate.flop_per_s, 'FLOP/s')}"
            for name, rate in gemm.providers.items()
            if name != gemm.provider
        ]
        if gemm.median_flop_per_s:
            others.append(f"median {quantity(gemm.median_flop_per_s, 'FLOP/s')}")
        name = f"matrix product, {DTYPE_NAMES.get(dtype, dtype)}"
        bound = quantity(gemm.bound_flop_per_s, "FLOP/s")
        rows.append((name, bound, gemm.provider, ", ".join(others)))
    for level, rate in ceilings.bandwidth.items():
        more = [
            f"{word} {quantity(value, 'B/s')}"
            for word, value in (("copy", rate.copy_bytes_per_s), ("read", rate.read_bytes_per_s))
            if value
        ]
        if rate.working_set_bytes:
            more.append(f"working set {quantity(rate.working_set_bytes, 'B')}")
        name = f"bandwidth, {LEVEL_NAMES.get(level, level)}"
        bound = quantity(rate.bound_bytes_per_s, "B/s")
        rows.append((name, bound, rate.provider, ", ".join(more)))
    for dtype, rate in ceilings.exp.items():
        name = f"exponentials, {DTYPE_NAMES.get(dtype, dtype)}"
        rows.append((name, quantity(rate.exp_per_s, "exp/s"), "exp", "drawn, never a bound"))
    if sheet := ceilings.datasheet:
        more = f"{sheet.source}, confidence {sheet.confidence}"
        for name, value in (("fp32", sheet.fp32_flop_per_s), ("bf16", sheet.bf16_flop_per_s)):
            if value:
                rows.append((f"datasheet, {name}", quantity(value, "FLOP/s"), sheet.key, more))
    return rows


def ceiling_origin(ceilings: Ceilings | None) -> str:
    """When and how the ceilings were measured."""
    if ceilings is None:
        return "not measured"
    parts = [f"measured {ceilings.measured_utc}" if ceilings.measured_utc else "measured"]
    if ceilings.clock:
        parts.append(f"on the clock {CLOCK_NAMES.get(ceilings.clock, ceilings.clock)}")
    if ceilings.threads:
        parts.append(f"threads: {ceilings.threads}")
    if ceilings.contended:
        parts.append("the machine was contended")
    return ", ".join(parts)


def flat(settings: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as (dotted name, text) lines; null is written "not known"."""
    lines: list[tuple[str, str]] = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            lines += flat(value, f"{prefix}{name}.") or [(f"{prefix}{name}", "none")]
        elif isinstance(value, list | tuple):
            lines.append((f"{prefix}{name}", ", ".join(str(item) for item in value) or "none"))
        else:
            lines.append((f"{prefix}{name}", "not known" if value is None else str(value)))
    return lines
