"""The page of runs side by side: what differs, the figure, and every cell's times and verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from reports.columns import NOTHING
from reports.comparison import LETTERS, Compared, sentences
from reports.figures import Drawn
from reports.inline_svg import Mark, inline_svg
from reports.page import Told, device_name, flat, template
from reports.page_rows import CELL_FIELDS, Fields, Row, choices, places
from reports.style import looks, unit_for
from results.findings import MOST
from results.schema import Cell
from results.verdict import VERDICTS, Verdict
from results.verdict_text import change_text, interval_text, launches_text

TEMPLATE = "comparison_page.html.jinja"


@dataclass(frozen=True)
class _Column:
    key: str
    header: str
    is_number: bool
    help: str = ""


@dataclass(frozen=True)
class _Line:
    """One cell: a row of it and what was said of it for each head."""

    cell: Cell
    verdicts: tuple[Verdict | None, ...]

    @property
    def verdict(self) -> str:
        """The worst that was said of it."""
        said = [one.verdict for one in self.verdicts if one]
        return min(said, key=VERDICTS.index)


_FIELDS: Fields[_Line] = {
    name: (lambda line, read=read: read(line.cell))
    for name, read in CELL_FIELDS.items()
    if name != "status"
} | {"verdict": lambda line: line.verdict}


def comparison_page(found: Compared, figures: Sequence[Drawn]) -> str:
    """The whole HTML page as text."""
    lines = [_Line(found.cells[name], verdicts) for name, verdicts in found.by_name.items()]
    columns, texts = _table(found, lines)
    numbers = {name: i for i, name in enumerate(found.by_name, start=1)}
    marks = {
        f"point-{i}-{line.cell.suite}": Mark(_words(line), line.cell.implementation, i + 1)
        for i, line in enumerate(lines)
    }
    owners = found.implementations
    look = looks(owners)
    counted = Counter(one.verdict for c in found.comparisons for one in c.verdicts)
    return template(TEMPLATE).render(
        run=found.base,
        header=found.base.header,
        device=device_name(found.base),
        runs=list(zip(LETTERS, found.runs, strict=False)),
        findings=[
            Told(sentence, figures[0].name if figures else "", tuple(numbers[n] for n in names))
            for sentence, names in sentences(found)
        ],
        most=MOST,
        ceiling_doubt="",
        figures=[(f, Markup(inline_svg(f, marks, owners))) for f in figures],
        owners=[(name, look[name].colour) for name in owners],
        columns=columns,
        flags_at=len(columns),
        n_first=len(columns),
        rows=[
            Row(row, place, "bad" if line.verdict in ("regressed", "broken") else "")
            for row, place, line in zip(texts, places(lines, _FIELDS), lines, strict=True)
        ],
        choices=choices(lines, _FIELDS),
        sorted_by=_FIELDS,
        text_hint="T=4096 causal",
        baselines=(),
        followers={},
        says_more=False,
        statuses=[(verdict, counted[verdict]) for verdict in VERDICTS],
        left_out="",
        wrong=[],
        reasons=[
            f"{letter}: {reason.text} ({reason.severity})"
            for letter, c in zip(LETTERS[1:], found.comparisons, strict=False)
            for reason in c.reasons
            if reason.severity != "ignored"
        ],
        baseline_notes=(),
        table_notes=[note for c in found.comparisons for note in c.notes],
        environment=flat(found.base.header.environment),
    )


def _table(found: Compared, lines: Sequence[_Line]) -> tuple[list[_Column], list[tuple[str, ...]]]:
    """The columns, and the texts of every row; one unit of time for all."""
    times = [v.base_s for line in lines for v in line.verdicts if v]
    unit = unit_for(times, "s")
    columns = [_Column("implementation", "implementation", False)]
    columns += [_Column("problem", "problem", False), _Column("pass", "pass", False)]
    columns.append(_Column("A", f"A {unit.name}", True, "one number a launch, their median"))
    for letter in LETTERS[1 : len(found.heads) + 1]:
        columns += [
            _Column(letter, f"{letter} {unit.name}", True),
            _Column(f"{letter}-change", f"{letter}: change", True, "of the time, to that of A"),
            _Column(f"{letter}-interval", "95 %", False, "of the change"),
            _Column(f"{letter}-n", "n", True, "launches"),
            _Column(f"{letter}-verdict", f"{letter}: verdict", False),
        ]
    columns.append(_Column("why", "why", False))
    rows = []
    for line in lines:
        cell = line.cell
        base = next((v.base_s for v in line.verdicts if v and v.base_s), None)
        row = [cell.implementation, cell.problem.id, cell.pass_.replace("_", " + ")]
        row.append(unit.show(base))
        for one in line.verdicts:
            if one is None:
                row += [NOTHING] * 5
            else:
                row += [unit.show(one.head_s), change_text(one.ratio), interval_text(one)]
                row += [launches_text(one), one.verdict]
        why = dict.fromkeys(reason for v in line.verdicts if v for reason in v.reasons)
        rows.append((*row, "; ".join(why) or NOTHING))
    return columns, rows


def _words(line: _Line) -> str:
    changes = ", ".join(change_text(one.ratio) for one in line.verdicts if one and one.ratio)
    return f"{line.cell.implementation}, {line.cell.problem.id}: {changes}"
