"""Forty cells, most kinds of broken ones among them, while somebody kills at random."""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from results.store import load_run
from tests import supervised_process as supervised

EXPECTED = {
    "fine": "ok",
    "slow": "ok",
    "garbage": "ok",
    "forking": "ok",
    "raising": "error",
    "memory": "oom",
    "exit139": "crashed",
    "exit0": "crashed",
    "segv": "crashed",
    "hanging": "timeout",
}
HOW_MANY = {
    "fine": 22, "slow": 4, "garbage": 2, "forking": 3, "raising": 2,
    "memory": 2, "exit139": 1, "exit0": 1, "segv": 2, "hanging": 1,
}  # fmt: skip
KILLS = 5
BROKEN = 5


def sweep(draw: random.Random) -> list[str]:
    """The cells in an order of chance, numbered."""
    kinds = [kind for kind, n in HOW_MANY.items() for _ in range(n)]
    draw.shuffle(kinds)
    return [f"{kind}:{n}" for n, kind in enumerate(kinds)]


class Monkey(threading.Thread):
    """Kills children of one process at random moments, one cell at most once.

    Killed from outside four times a cell would rightly be given up.
    """

    def __init__(self, supervisor: int, folder: Path, draw: random.Random) -> None:
        super().__init__(daemon=True)
        self.supervisor, self.folder, self.draw = supervisor, folder, draw
        self.over = threading.Event()
        self.kills = 0
        self.met: set[str] = set()

    def run(self) -> None:
        while self.kills < KILLS and not self.over.wait(self.draw.uniform(0.05, 0.4)):
            try:
                children = psutil.Process(self.supervisor).children()
            except psutil.NoSuchProcess:
                return
            for child in children:
                self.strike(child)

    def strike(self, child: psutil.Process) -> None:
        note = next(self.folder.glob("store/fake/*/running.json"), None)
        try:
            cell = json.loads(note.read_text())["cell"] if note else ""
        except FileNotFoundError:
            cell = ""
        if cell in self.met:
            return
        self.met |= {cell} - {""}
        try:
            child.kill()
        except psutil.NoSuchProcess:
            return
        self.kills += 1


def survive(folder: Path, seed: int) -> None:
    draw = random.Random(seed)
    words = sweep(draw)
    given = (" ".join(words), "--cell-limit", "1")
    first = supervised.start("run", folder, given[0], "given", *given[1:])
    monkey = Monkey(first.pid, folder, draw)
    monkey.start()
    # Some time after there is a run: without one there is nothing to resume.
    while first.poll() is None and not list(folder.glob("store/fake/*/run.json")):
        time.sleep(0.01)
    time.sleep(draw.uniform(0.1, 2.0))
    first.send_signal(signal.SIGKILL)
    first.communicate()
    monkey.over.set()
    monkey.join()
    code, events = supervised.run("resume", folder, given[0], "latest", *given[1:])

    wanted = Counter((word, 1, EXPECTED[word.split(":")[0]]) for word in words)
    assert supervised.times_finished(folder) == wanted, "each once, as what it is"
    assert code == BROKEN and events[-1]["event"] == "ended", events[-3:]
    assert events[-1]["exit_code"] == code and events[-1]["cells_left"] == 0
    run = load_run(supervised.run_folder(folder))
    assert run.state == "finished" and not run.notes
    assert supervised.header(folder)["counts"] == dict(Counter(s for _, _, s in wanted))
    for line in supervised.lines(folder):
        if line["implementation"] == "segv":
            assert "SIGSEGV" in line["reasons"][0]


@pytest.mark.parametrize("seed", range(3))
def test_a_sweep_survives_chaos(tmp_path, seed):
    survive(tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 23))
def test_a_sweep_survives_more_chaos(tmp_path, seed):
    survive(tmp_path, seed)
