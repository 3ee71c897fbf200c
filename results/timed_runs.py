"""The times of a store's timed runs, for the history: out of its index, or out of the runs."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from results import garbage
from results.folders import RunFolder
from results.index import Index
from results.journal import read_journal
from results.reading import SchemaError
from results.run import Run
from results.run_folder import JOURNAL, load_header, load_run
from results.run_times import Decoder, RunTimes, encode, times_of
from results.schema import Cell
from results.side import key_of
from results.summary import RunSummary
from results.waiting import told

_READING = "results: read the cells of {done} of {total} runs, {left}: once; the index keeps them"
# What is read before it is kept, and what one process reads at a time.
_AT_ONCE, _CHUNK = 64, 8
# A process of its own takes as long to start as it takes to read some tens of runs.
_WORTH_A_PROCESS = 64


@garbage.not_looked_for()
def timed_runs(
    store: Path, summaries: Sequence[RunSummary], is_wanted: Callable[[str], bool]
) -> list[RunTimes]:
    """The times of a store's timed runs, in their order, of the wanted cells.

    A run without such a cell is there as well: it has a method and a place in the order. One that
    cannot be read is told on stderr and left out. `is_wanted` is asked of a cell's name.
    """
    timed = [s for s in summaries if s.header is not None and s.header.kind == "timed"]
    folders = [summary.folder for summary in timed]
    index = Index(store, len(folders))
    said = index.known("times", folders)
    decoder = Decoder(index.texts(), is_wanted) if said else None
    found = {
        folder: times
        for folder in folders
        if decoder
        and folder.key in said
        and (times := decoder(folder.path, said[folder.key])) is not None
    }
    is_lasting = {summary.folder: summary.is_lasting for summary in timed}
    unknown = [folder for folder in folders if folder not in found]
    with index.keeping("times", _AT_ONCE) as keep:
        for folder, read in told(zip(unknown, _each(unknown), strict=True), unknown, _READING):
            if isinstance(read, str):
                print(f"results: left out: {read}", file=sys.stderr)
                continue
            if is_lasting[folder]:
                keep(folder, *encode(read))
            wanted = {name: time for name, time in read.times_s.items() if is_wanted(name)}
            found[folder] = replace(read, times_s=wanted)
    index.forget("times", folders)
    return [found[folder] for folder in folders if folder in found]


def newest_rows(runs: Sequence[RunTimes], names: Collection[str]) -> dict[str, Cell]:
    """A row of each named cell, for what it is: of the newest run that has one.

    Raises:
        SchemaError, OSError: as of `load_run`.
    """
    rows: dict[str, Cell] = {}
    left = set(names)
    for run in sorted(runs, key=lambda run: (run.utc, run.run), reverse=True):
        if not left.isdisjoint(run.times_s):
            found = {" ".join(key_of(cell)): cell for cell in load_run(run.path).cells}
            rows |= {name: cell for name, cell in found.items() if name in left}
            left -= found.keys()
    return rows


def _each(folders: Sequence[RunFolder]) -> Iterator[RunTimes | str]:
    """What each of them gives, or why it cannot be read."""
    processes = min(os.cpu_count() or 1, len(folders) // _WORTH_A_PROCESS)
    if processes < 2:
        yield from map(_read, folders)
        return
    # Ctrl-C is for the one that asks.
    pool = ProcessPoolExecutor(
        processes, get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN)
    )
    done = 0
    try:
        for read in pool.map(_read, folders, chunksize=_CHUNK):
            yield read
            done += 1
    except BrokenProcessPool:
        # One was killed, for its memory for instance: the rest is read here.
        yield from map(_read, folders[done:])
    finally:
        pool.shutdown(cancel_futures=True)


def _read(folder: RunFolder) -> RunTimes | str:
    try:
        # A cell that the process died in has no time: what was noted as running says nothing here.
        header, journal = load_header(folder.path, is_planned=False), folder.path / JOURNAL
        return times_of(Run(folder.path, header, read_journal(journal).cells, "unknown"))
    except (SchemaError, OSError) as error:
        return str(error)
