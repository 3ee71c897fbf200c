"""A store, a folder of baselines, and what the commands that judge say of them."""

from __future__ import annotations

import json

import numpy as np

from results.__main__ import main
from tests.fake_launches import NAMES, noisy, write_side
from tests.launch_data import Floats


def slower(factor: float, *, seed: int = 1, launches: int = 25) -> Floats:
    """Unchanged launches, but for the second cell."""
    times = noisy(launches, seed=seed)
    times[:, 1] *= factor
    return times


class Bench:
    """A store and a folder of baselines, and what the commands say of them."""

    def __init__(self, tmp_path, capsys):
        self.store, self.baselines, self._capsys = tmp_path / "runs", tmp_path / "b", capsys
        self.folder, self._days = tmp_path, iter(range(1, 29))

    def write(self, times_s, names=NAMES, **keywords):
        path = write_side(self.store, np.asarray(times_s), names, day=next(self._days), **keywords)
        return path.name

    def call(self, *arguments):
        places = ["--store", str(self.store)]
        if arguments[0] != "history":
            places += ["--baselines", str(self.baselines)]
        code = main([*map(str, arguments), *places])
        self.out, self.err = self._capsys.readouterr()
        self.last = self.out.splitlines()[-1] if self.out else ""
        return code

    def json(self, *arguments):
        code = self.call(*arguments, "--json")

        def refuse(word):
            raise AssertionError(f"{word} is not JSON")

        told = json.loads(self.out, parse_constant=refuse)
        assert told["exit_code"] == code
        return told
