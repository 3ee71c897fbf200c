"""What one run gives to the history: of each cell one time, and when and how it was measured."""

from __future__ import annotations

import functools
import json
import math
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from results.comparable import IGNORED_SETTINGS
from results.index import DIGEST_BYTES, text_digest
from results.run import Header, Run
from results.side import side


@dataclass(frozen=True)
class RunTimes:
    """The cells of one run by name, each with the middle of its launches, seconds, or None.

    Attributes:
        path: the run's folder.
        device: its name, of the ceilings, or the word "cpu" or "cuda".
        method: the settings that make times incomparable, as JSON.
        times_s: of every cell that was tried; None where no launch was ok and without a flag.
    """

    path: Path
    run: str
    utc: str
    commit: str | None
    machine_key: str
    device: str
    method: str
    times_s: Mapping[str, float | None]


def times_of(run: Run) -> RunTimes:
    """What a run that was read gives to the history."""
    header = run.header
    named = header.ceilings.device_name if header.ceilings else None
    return RunTimes(
        path=run.path,
        run=run.name,
        utc=header.created_utc,
        commit=header.commit,
        machine_key=header.machine_key,
        device=named or header.device,
        method=_method(header),
        times_s={
            cell.name: median(cell.times_s.values()) if cell.times_s else None
            for cell in side(run.name, [run]).cells.values()
        },
    )


def encode(times: RunTimes) -> tuple[bytes, tuple[str, str]]:
    """The times in bytes, for an index, and the texts that they refer to.

    A run has hundreds of cells with long names, and nearly always those of the run before it.
    """
    head = [times.run, times.utc, times.commit, times.machine_key, times.device]
    seconds = array("d", [math.nan if s is None else s for s in times.times_s.values()])
    texts = (times.method, json.dumps(list(times.times_s)))
    said = json.dumps(head, separators=(",", ":")).encode() + b"\n"
    return said + b"".join(map(text_digest, texts)) + seconds.tobytes(), texts


class Decoder:
    """Makes the times of bytes that `encode` made, of the wanted cells alone.

    What it needs of the names is found once for all runs that have the same.
    """

    def __init__(self, texts: Mapping[bytes, str], is_wanted: Callable[[str], bool]) -> None:
        self._texts, self._is_wanted = texts, functools.cache(is_wanted)
        self._places: dict[bytes, list[tuple[int, str]]] = {}

    def __call__(self, path: Path, said: bytes) -> RunTimes | None:
        """The times of the run in this folder; None where a text is not known."""
        head, _, rest = said.partition(b"\n")
        method, names = rest[:DIGEST_BYTES], rest[DIGEST_BYTES : 2 * DIGEST_BYTES]
        if method not in self._texts or names not in self._texts:
            return None
        seconds = array("d", rest[2 * DIGEST_BYTES :])
        if names not in self._places:
            every = enumerate(json.loads(self._texts[names]))
            self._places[names] = [(n, name) for n, name in every if self._is_wanted(name)]
        times_s = {
            name: None if math.isnan(seconds[n]) else seconds[n] for n, name in self._places[names]
        }
        run, utc, commit, machine_key, device = json.loads(head)
        return RunTimes(path, run, utc, commit, machine_key, device, self._texts[method], times_s)


def _method(header: Header) -> str:
    settings = {k: v for k, v in header.settings.all.items() if k not in IGNORED_SETTINGS}
    return json.dumps(settings, sort_keys=True, default=str)
