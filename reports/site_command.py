"""`python -m reports site`: the pages of all runs, the histories, and an index, as static files."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from reports.command_line import BROKEN, CommandMistake, command_parser, complaining
from reports.site import RECORD, place_of, run_digest, site_index, written_record
from results.reading import SchemaError
from results.store import list_runs, load_run, store_folder
from results.summary import RunSummary

OUT = Path(__file__).parent / "out" / "site"
_CODES = "0 written, 2 wrong usage or no run, 5 a run could not be read (the others are written)"


@complaining
def main(arguments: Sequence[str] | None = None) -> int:
    """Write the site; its index goes to stdout, progress to stderr → the exit code."""
    parser = command_parser(
        "site",
        "Every run's page, every machine's history and an index: static files, as GitHub Pages "
        "serves them. A page whose run has not changed is left as it is.",
        "--out docs/site",
        "--index-only --json",
        codes=_CODES,
        json_help="print what was written as JSON",
    )
    parser.add_argument("--out", metavar="FOLDER", default=OUT, help="default: reports/out/site")
    parser.add_argument(
        "--index-only", action="store_true", help="the index of the pages that there are"
    )
    options = parser.parse_args(arguments)
    out, store = Path(options.out), store_folder(options.store)
    summaries = list_runs(store)
    if not any(summary.header for summary in summaries):
        raise CommandMistake(f"no runs in {store}: make one with `make bench`")
    out.mkdir(parents=True, exist_ok=True)
    written: list[str] = []
    code = BROKEN if any(summary.header is None for summary in summaries) else 0
    if not options.index_only:
        readable = [summary for summary in summaries if summary.header]
        for number, summary in enumerate(readable, start=1):
            code = _write_page(summary, out, written, _teller(number, len(readable))) or code
        _write_histories(readable, out, store)
    index = out / "index.html"
    index.write_text(site_index(summaries, out), encoding="utf-8", newline="")
    # GitHub Pages would leave out what begins with an underscore.
    (out / ".nojekyll").write_text("", encoding="utf-8")
    if options.json:
        print(json.dumps({"index": str(index), "written": written}, indent=1, ensure_ascii=False))
    else:
        print(f"index   {index}")
        print(f"written {len(written)} of {len(summaries)} pages; the others are as they were")
    return code


def _write_page(
    summary: RunSummary, out: Path, written: list[str], tell: Callable[[str], None]
) -> int:
    """Write one run's page unless it is of the very files → the exit code."""
    from reports.__main__ import write_report

    digest = run_digest(summary.path)
    before = written_record(out, summary)
    if before and before.get("digest") == digest:
        return 0
    folder = out / place_of(summary)
    try:
        record = write_report(load_run(summary.path), folder, tell)
    except (SchemaError, OSError) as error:
        print(f"reports: {error}", file=sys.stderr)
        return BROKEN
    kept = {"run": summary.name, "findings": record["findings"], "digest": digest}
    text = json.dumps(kept, indent=1, ensure_ascii=False)
    (folder / RECORD).write_text(text + "\n", encoding="utf-8", newline="")
    written.append(record["page"])
    return 0


def _write_histories(summaries: Sequence[RunSummary], out: Path, store: Path) -> None:
    """The trend page of every machine that has several timed runs."""
    from contextlib import redirect_stdout

    from reports.history import command

    timed = [s for s in summaries if s.header and s.header.kind == "timed"]
    for key in dict.fromkeys(s.machine_key for s in timed):
        if sum(s.machine_key == key for s in timed) > 1:
            # It tells what it wrote on stdout, which is the site's to say.
            with redirect_stdout(sys.stderr):
                command.main(
                    ["--machine", key, "--store", str(store), "--out", str(out / "history")]
                )


def _teller(number: int, total: int) -> Callable[[str], None]:
    def tell(what: str) -> None:
        if what == "writing the page":
            print(f"reports: page {number} of {total} …", file=sys.stderr)

    return tell
