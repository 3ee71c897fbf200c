"""A store of static runs and a folder of baselines, and the commands that judge them."""

from __future__ import annotations

from results.__main__ import main
from tests.fake_profiles import profile
from tests.fake_static_run import write_static_run

ALL = [profile(arch=a, d_h=d) for a in ("sm_80", "sm_90") for d in (64, 128)]


class Bench:
    """A store and a folder of baselines that the commands see."""

    def __init__(self, folder, capsys):
        self.folder, self.capsys, self.hour = folder, capsys, 0

    def run(self, records, change=None) -> str:
        """A finished static run, newer than the last → its name."""

        self.hour += 1
        created = f"20261129T{self.hour:02}0000Z"
        runs = self.folder / "runs"
        return write_static_run(runs, records, created=created, change=change).name

    def call(self, *arguments: str) -> int:
        places = ["--store", str(self.folder / "runs"), "--baselines", str(self.baselines)]
        return main([*arguments, "--static", *places])

    @property
    def baselines(self):
        return self.folder / "baselines"

    def said(self) -> str:
        return self.capsys.readouterr().out

    def accept(self, records) -> None:
        self.run(records)
        assert self.call("accept") == 0
        self.said()


def replaced(*records):
    """ALL with those of `records` in place of their namesakes."""
    theirs = {(r["arch"], r["d_h"]): r for r in records}
    return [theirs.get((r["arch"], r["d_h"]), r) for r in ALL]
