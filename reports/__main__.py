"""`python -m reports`: a run as one page, figures, Markdown and the points as CSV."""

from __future__ import annotations

from impls.interface.streams import take_any_sign

# isort: split
import argparse
import importlib
import json
import os
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from reports.command_line import (
    add_summary_option,
    append_summary,
    complaining,
    summary_file,
    wrapped,
)
from reports.markdown import markdown
from reports.next_steps import next_steps
from reports.rows import status_counts
from results.findings import findings
from results.reading import SchemaError
from results.run import Run
from results.store import RunNotFound, find_run, load_run, store_folder

WRONG, USAGE, BROKEN = 1, 2, 5
OUT = Path(__file__).parent / "out"
# What has a page, a table or a text of its own, by the module whose `main` makes it.
COMMANDS = {
    "compare": "reports.comparison_command",
    "explain": "reports.explain_command",
    "export": "reports.export_command",
    "history": "reports.history.command",
    "reference": "reports.reference_command",
    "site": "reports.site_command",
}
_TELL_AFTER_S = 2.0

_EXAMPLES = """\
commands of their own, each with --help:
  {commands}

examples:
  python -m reports
  python -m reports 20261129T193000Z-3f2a9bc --out /tmp/report

exit codes: 0 written, 1 a result of the run was wrong, 2 no such run or wrong
usage, 5 unreadable, or no ok cell (after 1, and after 5 for want of an ok cell,
the page is written all the same)
"""


@complaining
def main(arguments: Sequence[str] | None = None) -> int:
    """Write the reports; paths and findings go to stdout, progress to stderr → the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in COMMANDS:
        return importlib.import_module(COMMANDS[given[0]]).main(given[1:])
    options = _parser().parse_args(given)
    summary = summary_file(options.summary)
    store = store_folder(options.store)
    try:
        folders = [find_run(name, store) for name in options.runs or ["latest"]]
    except RunNotFound as error:
        print(f"reports: {error}", file=sys.stderr)
        return USAGE
    code = 0
    records: list[dict[str, Any]] = []
    for folder in folders:
        try:
            run = _against(options.baseline, load_run(folder))
            record = write_report(run, Path(options.out) / run.name, _progress())
        except (SchemaError, OSError) as error:
            print(f"reports: {error}", file=sys.stderr)
            code = BROKEN
            continue
        append_summary(summary, markdown(run))
        records.append(record)
        if not options.json:
            _print(record)
        if record["counts"]["wrong"]:
            print(f"reports: {run.name} has wrong results", file=sys.stderr)
            code = code or WRONG
        elif not record["counts"]["ok"]:
            print(f"reports: {run.name} has no ok cell", file=sys.stderr)
            code = BROKEN
    if options.json:
        print(json.dumps(records, indent=1, ensure_ascii=False))
    return code


def _against(baseline: str | None, run: Run) -> Run:
    """The run with its ratios to this implementation, where one was named.

    Raises:
        SchemaError: it has no comparable row in the run.
    """
    if baseline is None:
        return run
    # As for the figures, matplotlib is imported where it is needed.
    from reports.followers import against

    known = sorted({cell.implementation for cell in run.comparable_cells})
    if baseline not in known:
        raise SchemaError(f"{run.name} has no comparable row of {baseline}: {', '.join(known)}")
    return against(run, baseline)


def write_report(run: Run, out: Path, tell: Callable[[str], None]) -> dict[str, Any]:
    """Write everything of one run into the folder `out` → paths, findings and counts."""
    # matplotlib takes a second to import; an unknown run is refused before that.
    from reports.figures import figure_modules, render
    from reports.followers import ratio_figures
    from reports.page import page
    from reports.points_file import points_csv
    from reports.profiles_file import profiles_csv
    from reports.static_page import static_page

    out.mkdir(parents=True, exist_ok=True)
    drawn = []
    for module in figure_modules():
        tell(f"drawing {module.__name__.rpartition('.')[2]}")
        figure = render(module, run)
        if figure is not None:
            drawn.append(figure)
            (out / f"{figure.name}.svg").write_text(figure.svg, encoding="utf-8")
            (out / f"{figure.name}.png").write_bytes(figure.png)
    is_static = run.header.kind == "static"
    tell("drawing ratios to other baselines")
    others = {} if is_static else ratio_figures(run)
    tell("writing the page")
    files = [(figure.title, f"{figure.name}.png") for figure in drawn]
    texts = {"report.html": static_page(run, drawn) if is_static else page(run, drawn, others)}
    texts["report.md"] = markdown(run, files)
    if is_static:
        texts["profiles.csv"] = profiles_csv(run)
    else:
        texts["points.csv"] = points_csv(run)
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8", newline="")
    names = [*texts, *(f"{f.name}.{kind}" for f in drawn for kind in ("png", "svg"))]
    return {
        "run": run.name,
        "state": run.state,
        "page": str(out / "report.html"),
        "files": [str(out / name) for name in names],
        "findings": [finding.sentence for finding in findings(run)],
        "counts": dict(status_counts(run)),
        "notes": list(run.notes),
        "next": next_steps(run),
    }


def _print(record: dict[str, Any]) -> None:
    counts = ", ".join(f"{n} {status}" for status, n in record["counts"].items() if n)
    print(f"run {record['run']}, {record['state']}: {counts or 'no cells'}")
    names = [Path(file).name for file in record["files"][1:]]
    for note in record["notes"]:
        print(_hanging("note    ", f"{note}."))
    print(f"report  {record['page']}")
    print(_hanging("beside  ", ", ".join(names)))
    for sentence in record["findings"][:3]:
        print(_hanging("      - ", sentence))
    for n, line in enumerate(record["next"]):
        print(f"{'next' if n == 0 else '':8}{line}")


def _hanging(start: str, text: str) -> str:
    """Lines of at most 80 columns, the later ones under the first's text."""
    return textwrap.fill(
        text,
        width=80,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _progress() -> Callable[[str], None]:
    """A teller for stderr that keeps quiet when all is done within two seconds."""
    begin = time.monotonic()

    def tell(what: str) -> None:
        if time.monotonic() - begin > _TELL_AFTER_S:
            print(f"reports: {what} …", file=sys.stderr)

    return tell


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m reports",
        description=wrapped(
            "Write a run as one HTML page that opens offline, figures as PNG and SVG, report.md "
            "and points.csv. Needs no torch."
        ),
        epilog=_EXAMPLES.format(commands=", ".join(COMMANDS)),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "runs",
        nargs="*",
        metavar="RUN",
        help='"latest" (default), a name or its beginning, or a path; see python -m results list',
    )
    parser.add_argument(
        "--store",
        metavar="FOLDER",
        help="the folder of runs (default: $ATTNBENCH_STORE, or results/runs of this checkout)",
    )
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        default=OUT,
        help="where <run>/ is written (default: reports/out)",
    )
    parser.add_argument(
        "--baseline",
        metavar="NAME",
        help="what ratios, findings and figures are against (default: the run's own)",
    )
    add_summary_option(parser)
    parser.add_argument("--json", action="store_true", help="print paths and findings as JSON")
    return parser


if __name__ == "__main__":
    take_any_sign()
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:
        # `| head` has seen enough; the interpreter's last flush must not complain of it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        # A full disk under stdout; 1 would say that a result is wrong.
        print(f"reports: {error}", file=sys.stderr)
        code = 5
    sys.exit(code)
