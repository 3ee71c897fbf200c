"""What is counted is compared exactly."""

from __future__ import annotations

import numpy as np
import pytest

from results.compare import compare
from results.side import side
from results.store import load_run
from results.verdict import exit_code
from tests.fake_launches import noisy, write_side


@pytest.fixture
def a_side(tmp_path):
    """`a_side(times, …)` is the side of one run of these launches."""
    made = iter(range(1, 29))

    def make(times_s, **keywords):
        path = write_side(tmp_path, np.asarray(times_s), day=next(made), **keywords)
        return side(path.name, [load_run(path)])

    return make


def verdicts(found):
    return {one.name.split(" ")[0]: one.verdict for one in found.verdicts}


def test_counters_are_exact(a_side):
    def grow(lines):
        memory = {"peak_bytes": 1_000_001, "how": "profiler"}
        return [x | {"memory": memory} if x["implementation"] == "naive" else x for x in lines]

    def steady(lines):
        return [x | {"memory": {"peak_bytes": 1_000_000, "how": "profiler"}} for x in lines]

    base = a_side(noisy(25), alter=steady)
    found = compare(base, a_side(noisy(25, seed=1), alter=lambda x: grow(steady(x))))
    assert verdicts(found)["naive"] == "regressed" and exit_code(found) == 1
    assert found.verdicts[0].reasons[0] == "peak_bytes 1000000 → 1000001"
    back = compare(a_side(noisy(25), alter=lambda x: grow(steady(x))), base)
    assert verdicts(back)["naive"] == "improved"

    # What launches disagree on is not exact.
    def uneven(lines):
        return [x | {"memory": {"peak_bytes": 10 + x["launch"]}} for x in steady(lines)]

    assert compare(base, a_side(noisy(25), alter=uneven)).counts == {"unchanged": 3}
