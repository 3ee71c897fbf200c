"""`python -m reports compare RUN RUN …`: runs side by side, the first of them the base."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reports.command_line import (
    CommandMistake,
    add_summary_option,
    append_summary,
    command_parser,
    complaining,
    open_run,
    summary_file,
)
from reports.comparison import LETTERS, MOST_RUNS, Compared, compared, sentences
from results.verdict_markdown import LONGEST, markdown
from results.verdict_record import comparison_record

OUT = Path(__file__).parent / "out"
_CODES = (
    "0 written, 2 no such run or wrong usage, 4 not comparable, 5 unreadable or nothing compared"
)


@complaining
def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, its figure and its rows; paths and sentences go to stdout → exit code."""
    parser = command_parser(
        "compare",
        "Runs side by side on one page: the first is the base of the others.",
        "20261129T193000Z latest",
        "before/run after/run --out /tmp/compared",
        codes=_CODES,
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="a name or its beginning, or a path")
    parser.add_argument(
        "--allow-mismatch", action="append", default=[], metavar="FIELD",
        help="a field in which the runs may differ (repeatable)",
    )  # fmt: skip
    parser.add_argument(
        "--out", metavar="FOLDER", help="where it is written (default: reports/out/<base>-<last>)"
    )
    add_summary_option(parser)
    options = parser.parse_args(arguments)
    summary = summary_file(options.summary)
    if not 2 <= len(options.runs) <= MOST_RUNS:
        raise CommandMistake(f"{len(options.runs)} runs given: give 2 to {MOST_RUNS}")
    runs = [open_run(name, options.store) for name in options.runs]
    if len({run.path.resolve() for run in runs}) < len(runs):
        raise CommandMistake("a run is given twice: set each against another")
    found = compared(runs, options.allow_mismatch)
    out = Path(options.out or OUT / f"{runs[0].name}-{runs[-1].name}")
    files = write_comparison(found, out)
    append_summary(summary, comparison_markdown(found))
    if options.json:
        print(json.dumps(_record(found, files), indent=1, ensure_ascii=False))
    else:
        print(f"report  {files[0]}")
        for sentence, _ in sentences(found):
            print(f"      - {sentence}")
    return found.code


def write_comparison(found: Compared, out: Path) -> list[str]:
    """Write page, Markdown, CSV and figure into `out` → their paths, the page first."""
    from reports import comparison_figure
    from reports.comparison_page import comparison_page
    from reports.figures import render

    out.mkdir(parents=True, exist_ok=True)
    drawn = render(comparison_figure, found)  # type: ignore[arg-type]  # the module draws these
    texts = {"comparison.html": comparison_page(found, [drawn] if drawn else [])}
    texts["comparison.md"] = comparison_markdown(found)
    texts["comparison.csv"] = comparison_csv(found)
    if drawn is not None:
        texts[f"{drawn.name}.svg"] = drawn.svg
        (out / f"{drawn.name}.png").write_bytes(drawn.png)
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8", newline="")
    names = [*texts, *([f"{drawn.name}.png"] if drawn else [])]
    return [str(out / name) for name in names]


def comparison_markdown(found: Compared) -> str:
    """What was said of each head, one after the other, as long as a comment may be."""
    text = ""
    for letter, one in zip(LETTERS[1:], found.comparisons, strict=False):
        told = f"{markdown(one, found.code)}\n"
        is_short = len(text) + len(told) <= LONGEST
        text += told if is_short else f"{letter} ({one.head}): too long for here, see the page\n"
    return text


def comparison_csv(found: Compared) -> str:
    """One line a cell and head, seconds raw; empty where something is not known."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    fields = ("verdict", "base_s", "head_s", "ratio", "low", "high", "p")
    fields += ("base_launches", "head_launches")
    writer.writerow(("cell", "head", *fields, "reasons"))
    for name, verdicts in found.by_name.items():
        for run, one in zip(found.heads, verdicts, strict=True):
            if one is not None:
                values = [getattr(one, field) for field in fields]
                writer.writerow((name, run.name, *values, "; ".join(one.reasons)))
    return text.getvalue()


def _record(found: Compared, files: Sequence[str]) -> dict[str, Any]:
    return {
        "base": found.base.name,
        "files": list(files),
        "findings": [sentence for sentence, _ in sentences(found)],
        "comparisons": {
            letter: comparison_record(
                one, {"base": found.base.header.commit, "head": head.header.commit}
            )
            for letter, head, one in zip(LETTERS[1:], found.heads, found.comparisons, strict=False)
        },
    }
