"""Where runs are kept, which there are, and which of them a name means."""

from __future__ import annotations

import difflib
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from results import garbage
from results.folders import RunFolder, run_folders
from results.index import Index
from results.run import Header
from results.run_folder import JOURNAL, load_header, load_run
from results.summary import RunSummary, decode, encode, summarize
from results.waiting import told

__all__ = ["RunNotFound", "find_run", "list_runs", "load_run", "store_folder", "without_parts"]

STORE_VARIABLE = "ATTNBENCH_STORE"
_READING = "results: read {done} of {total} runs, {left}: this once; the index keeps them"
_KINDS = ("timed", "static")
# What is read before it is kept: an interrupted first reading goes on from there.
_AT_ONCE = 500


class RunNotFound(LookupError):
    """No run is called so, or several are; the message says which there are."""


def store_folder(chosen: str | Path | None = None) -> Path:
    """The folder of runs: `chosen`, else $ATTNBENCH_STORE, else `runs` beside this module.

    Never a matter of the current folder or the Python that runs.
    """
    given = chosen or os.environ.get(STORE_VARIABLE)
    if not given:
        return Path(__file__).parent / "runs"
    # Path.expanduser raises where there is no such user; a shell leaves `~nobody` as it is.
    return Path(os.path.expanduser(given)).absolute()  # noqa: PTH111


@garbage.not_looked_for()
def list_runs(store: str | Path | None = None) -> list[RunSummary]:
    """Every run of the store, over all machines, the newest first; unreadable ones last."""
    store = store_folder(store)
    folders = _folders(store)
    index = Index(store, len(folders))
    said = index.known("summaries", folders)
    found = {f: decode(f, said[f.key]) for f in folders if f.key in said}
    unknown = [folder for folder in folders if folder not in found]
    with index.keeping("summaries", _AT_ONCE) as keep:
        for summary in told(map(summarize, unknown), unknown, _READING):
            found[summary.folder] = summary
            if summary.is_lasting:
                keep(summary.folder, encode(summary))
    index.forget("summaries", folders)
    if index.trouble:
        print(f"results: nothing is kept for the next time: {index.trouble}", file=sys.stderr)
    readable = [s for s in found.values() if s.header is not None]
    readable.sort(key=lambda s: (s.header.created_utc if s.header else "", s.name), reverse=True)
    return readable + [found[f] for f in folders if found[f].header is None]


def without_parts(summaries: Iterable[RunSummary]) -> list[RunSummary]:
    """The runs whose cells count: no part that was merged into another of them, and no copy."""
    found = list(summaries)
    parts = {(s.machine_key, name) for s in found if s.header for name in s.header.merged}
    whole = [s for s in found if (s.machine_key, s.name) not in parts]
    same: dict[tuple[str, str, str], list[RunSummary]] = defaultdict(list)
    for one in whole:
        if one.header is not None:
            header = one.header
            same[(header.machine_key, header.run, header.created_utc)].append(one)
    copies = {copy.folder for twins in same.values() for copy in _copies(twins)}
    return [one for one in whole if one.folder not in copies]


def _copies(twins: Sequence[RunSummary]) -> list[RunSummary]:
    """Those whose journal is that of another one of them, or the beginning of it."""
    if len(twins) == 1:
        return []
    # Of two equal ones the one that has its own name is the run.
    journals = [(_journal(one), one.header and one.name == one.header.run, one) for one in twins]
    journals.sort(key=lambda j: (len(j[0]), j[1], j[2].name), reverse=True)
    copies: list[RunSummary] = []
    for n, (journal, _, one) in enumerate(journals):
        if any(longer.startswith(journal) for longer, *_ in journals[:n]):
            copies.append(one)
    return copies


def _journal(summary: RunSummary) -> bytes:
    try:
        return (summary.path / JOURNAL).read_bytes()
    except OSError:
        return b""


def find_run(
    name: str | Path = "latest",
    store: str | Path | None = None,
    *,
    kind: str | None = None,
    is_meant: Callable[[Header], bool] | None = None,
) -> Path:
    """The folder of the run called so.

    `name` is "latest", a run's name, a beginning of it, `<machine-key>/<name>`, or a path. "latest"
    is of one `kind`, "timed" or "static"; of any, it is a static run only where none is timed. It
    is of those that `is_meant` says yes to.

    Raises:
        RunNotFound: none is called so, or several; the message offers close names.
        SchemaError, OSError: what `is_meant` is asked of has changed and cannot be read any more.
    """
    if name == "latest":
        return _latest(store_folder(store), kind, is_meant)
    if (Path(name) / "run.json").is_file():
        return Path(name).absolute()
    folders = _folders(store_folder(store))
    names = {folder: (folder.name, f"{folder.machine_key}/{folder.name}") for folder in folders}
    text = str(name)
    found = [f for f in folders if text in names[f]]
    found = found or [f for f in folders if any(n.startswith(text) for n in names[f])]
    if len(found) == 1:
        return found[0].path
    if found:
        several = _some([names[f][1] for f in found])
        raise RunNotFound(f'"{text}" is the beginning of {len(found)} runs: {several}')
    raise RunNotFound(_not_found(text, [f.name for f in folders], store_folder(store)))


def _latest(store: Path, kind: str | None, is_meant: Callable[[Header], bool] | None) -> Path:
    every = without_parts(list_runs(store))
    readable = [(s, s.header.kind) for s in every if s.header is not None]
    # Compiling measures nothing: a static run hides no timed one.
    for wanted in (kind,) if kind else _KINDS:
        for one in (s for s, its in readable if its == wanted):
            if is_meant is None or is_meant(load_header(one.path, is_planned=False)):
                return one.path
    command = "python -m suites static" if kind == "static" else "make bench"
    what = f"{kind} runs" if kind == "static" or readable else "runs"
    words = f"no {what} in {store}: make one with `{command}`"
    if unreadable := [s for s in every if s.error]:
        first = f"{unreadable[0].name}: {unreadable[0].error}"
        words += f" ({len(unreadable)} cannot be read, {first})"
    raise RunNotFound(words)


def _folders(store: Path) -> list[RunFolder]:
    if store.exists() and not store.is_dir():
        raise RunNotFound(f"{store} is a file: the store is a folder of runs")
    return run_folders(store)


def _not_found(text: str, names: list[str], store: Path) -> str:
    if not names:
        return f'no run "{text}": there are no runs in {store}: make one with `make bench`'
    close = difflib.get_close_matches(text, names, n=1)
    hint = f'did you mean "{close[0]}"? ' if close else ""
    newest = _some(sorted(set(names), reverse=True))
    return f'no run "{text}" in {store}: {hint}there are: {newest}'


def _some(names: Sequence[str]) -> str:
    """The first ten, and how many more there are."""
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(names[:10]) + more
