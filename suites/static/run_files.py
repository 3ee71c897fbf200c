"""A static run on the disk: the same files as a timed one has."""

from __future__ import annotations

import platform
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from suites.measure.environment import checkout
from suites.measure.journal import RunDirectory, utc_now
from suites.session.options import store_folder
from suites.static.architectures import limits_of, rates_of
from suites.static.job import Toolchain
from suites.static.selection import Wanted

SETTINGS_VERSION = 1


class StaticRun:
    """One run directory while it is written; use it in a `with` statement."""

    def __init__(self, directory: RunDirectory, header: dict[str, Any]) -> None:
        """`header` is what run.json says before the first profile."""
        self._directory, self._header = directory, header
        self._counts: Counter[str] = Counter()
        directory.write_run(header)

    @classmethod
    def create(
        cls, store: str | None, toolchains: Mapping[int, Toolchain], wanted: Wanted
    ) -> StaticRun:
        """A new run below `store/static-…`.

        Raises:
            OSError: the store cannot be written.
        """
        commit, dirty = checkout()
        key = machine_key(toolchains)
        directory = RunDirectory.create(store_folder(store), key, commit)
        header = {
            "schema": 1,
            "kind": "static",
            "run": directory.run_id,
            "created_utc": utc_now(),
            "finished_utc": None,
            "interrupted": False,
            "commit": commit,
            "dirty": dirty,
            "command": "python -m suites " + shlex.join(sys.argv[1:]),
            "machine_key": key,
            "device": "none",
            "environment": {
                "triton": next(iter(toolchains.values())).triton,
                "ptxas": {f"sm_{c}": t.ptxas for c, t in sorted(toolchains.items())},
                "python": platform.python_version(),
                "system": platform.system(),
            },
            "ceilings": None,
            "settings": {
                "settings_version": SETTINGS_VERSION,
                "selection": _selection(wanted),
                "limits": {f"sm_{c}": asdict(limits_of(c)) for c in sorted(toolchains)},
                "rates": {
                    f"sm_{c}": asdict(rates) if (rates := rates_of(c)) else None
                    for c in sorted(toolchains)
                },
            },
            "plan": [],
            "counts": {},
        }
        return cls(directory, header)

    @property
    def folder(self) -> Path:
        """Where the run lies."""
        return self._directory.path

    @property
    def count(self) -> int:
        """How many profiles are on the disk."""
        return self._counts.total()

    def append(self, record: Mapping[str, Any]) -> None:
        """Put a finished profile on the disk."""
        self._directory.append(record)
        self._counts[record["status"]] += 1

    def finish(self) -> None:
        """Say in run.json that nothing is to come."""
        self._write(is_interrupted=False)

    def __enter__(self) -> StaticRun:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """After an error what was compiled stays; a run of nothing would be the latest one."""
        if kind is not None and self.count:
            self._write(is_interrupted=True)
        self._directory.close()
        if kind is not None and not self.count:
            shutil.rmtree(self.folder)
            with suppress(OSError):
                self.folder.parent.rmdir()

    def _write(self, *, is_interrupted: bool) -> None:
        end = {"finished_utc": utc_now(), "interrupted": is_interrupted}
        self._header |= end | {"counts": dict(self._counts)}
        self._directory.write_run(self._header)


def machine_key(toolchains: Mapping[int, Toolchain]) -> str:
    """The folder of runs that one toolchain made: no machine matters to a compiler."""
    triton = next(iter(toolchains.values())).triton
    versions = sorted({toolchain.ptxas for toolchain in toolchains.values()})
    return "-".join(["static", f"triton{triton}", f"ptxas{'+'.join(versions)}"])


def _selection(wanted: Wanted) -> dict[str, Any]:
    """What was asked for, so that a reader knows whether anything is missing."""
    return {name: value for name, value in asdict(wanted).items() if value}
