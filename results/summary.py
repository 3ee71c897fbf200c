"""What a list shows of one run."""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass
from pathlib import Path

from results.folders import RunFolder
from results.reading import SchemaError
from results.run import Header
from results.run_folder import RUNNING, load_header, load_run, load_running, state_of


@dataclass(frozen=True)
class Brief:
    """What a list tells of a header: fields of `results.run.Header`, and of what it holds.

    `merged` are the names of the runs that it was made of.
    """

    run: str
    created_utc: str
    machine_key: str
    device: str
    kind: str = "timed"
    commit: str | None = None
    dirty: bool | None = None
    budget: str | None = None
    device_name: str | None = None
    merged: tuple[str, ...] = ()

    @classmethod
    def of(cls, header: Header) -> Brief:
        """The brief of a whole header."""
        return cls(
            run=header.run,
            created_utc=header.created_utc,
            machine_key=header.machine_key,
            device=header.device,
            kind=header.kind,
            commit=header.commit,
            dirty=header.dirty,
            budget=header.settings.budget,
            device_name=header.ceilings.device_name if header.ceilings else None,
            merged=tuple(part.run for part in header.merged),
        )


@dataclass(frozen=True)
class RunSummary:
    """One line of a list of runs; if `error` says why it cannot be read, the rest is unknown.

    `name` and `machine_key` are the folders' names, by which a run is asked for. `is_lasting`: it
    stays so while the files do; not where a process may still end.
    """

    folder: RunFolder
    header: Brief | None = None
    state: str = "unreadable"
    counts: dict[str, int] | None = None
    error: str | None = None
    is_lasting: bool = False

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self.folder.path

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.name

    @property
    def machine_key(self) -> str:
        """The name of the folder that it lies in."""
        return self.folder.machine_key


def summarize(folder: RunFolder) -> RunSummary:
    """What a list shows of one run; of a finished one the plan is not read, nor its cells.

    The counts of a finished one are taken from its header.
    """
    path = folder.path
    try:
        header = load_header(path, is_planned=False)
        if header.finished_utc and header.counts and not (path / RUNNING).exists():
            state, counts = state_of(header, None, False), dict(header.counts)
            return RunSummary(folder, Brief.of(header), state, counts, is_lasting=True)
        run = load_run(path)
        running, _ = load_running(path)
        # Another process may have the number of one whose beginning nobody knows.
        is_over = run.running is None and (running is None or running.pid_started is not None)
        return RunSummary(folder, Brief.of(header), run.state, run.counts, is_lasting=is_over)
    except (SchemaError, OSError) as error:
        return RunSummary(folder, error=str(error))


def encode(summary: RunSummary) -> bytes:
    """A readable summary in bytes, for an index."""
    assert summary.header is not None
    said = [astuple(summary.header), summary.state, summary.counts]
    return json.dumps(said, separators=(",", ":")).encode()


def decode(folder: RunFolder, said: bytes) -> RunSummary:
    """The summary of a run that `encode` made bytes of."""
    (*header, merged), state, counts = json.loads(said)
    brief = Brief(*header, merged=tuple(merged))
    return RunSummary(folder, brief, state, counts, is_lasting=True)
