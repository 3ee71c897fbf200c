"""What a brought kernel sets of torch for all: told of it, and felt by nobody else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from impls.interface import torch_state
from impls.interface.attention import Capabilities, Implementation
from impls.interface.availability import availability
from impls.interface.brought import bring
from impls.interface.conformance import conformance
from impls.interface.conformance_cases import cases
from impls.interface.conformance_trial import Trial
from impls.interface.registry import implementations
from suites.session.speeds import probe_speeds

GONE = "import os, tempfile; os.chdir(folder := tempfile.mkdtemp()); os.rmdir(folder)"
CHANGES = {
    "default dtype from torch.float32 to": "torch.set_default_dtype(torch.float64)",
    "SDPA flash from True to False": "torch.backends.cuda.enable_flash_sdp(False)",
    "anomaly detection from False to True": "torch.set_anomaly_enabled(True)",
    "CPU autocast from False to True": "torch.set_autocast_enabled('cpu', True)",
    "default device from cpu to meta": "torch.set_default_device('meta')",
    "oneDNN from True to False": "torch.backends.mkldnn.set_flags(_enabled=False)",
    "float32 matmul precision from highest": "torch.set_float32_matmul_precision('medium')",
    "current folder from ": "import os; os.chdir('/')",
    f"current folder from {Path.cwd()} to a folder that is gone": GONE,
}
FORWARD = Capabilities(passes=("forward",))
NAIVE = implementations()["naive"]


@pytest.fixture(params=CHANGES.items(), ids=lambda one: one[0].split(" from")[0])
def change(request):
    """What is told of a change, and the line that makes it; undone whatever the test leaves."""
    with torch_state.kept():
        yield request.param


def changing(line):
    def forward(q, k, v, **arguments):
        out = NAIVE.forward(q, k, v, **arguments)
        exec(line, {"torch": torch})
        return out

    return Implementation("changing", forward, "", FORWARD, source="kernel.py:changing")


def test_what_a_call_changes_is_wrong_and_holds_for_nobody_else(change):
    """What one kernel switches off, the next would be measured without."""
    told, line = change
    before = torch_state.read()
    assert availability(changing(line), "cpu") == [] and torch_state.read() == before
    outcome = Trial(changing(line), "cpu", "device").outcome(cases()[0], "output")
    assert torch_state.read() == before
    assert outcome.status == "wrong"
    assert outcome.reasons[0].startswith(f"it changed for all: {told}")


def test_a_whole_conformance_run_leaves_torch_as_it_was():
    with torch_state.kept():
        before = torch_state.read()
        line = CHANGES["SDPA flash from True to False"]
        assert not conformance(changing(line), "cpu", matrix=cases()[:1]).ok
        assert torch_state.read() == before


def test_what_an_import_changes_is_put_back(change, tmp_path):
    """A script sets its defaults at its top, and every other kernel was measured with them."""
    file = tmp_path / "script.py"
    file.write_text(f"import torch\n{change[1]}\n\ndef mine(q, k, v):\n    return v\n")
    before = torch_state.read()
    assert bring(f"{file}:mine").name == "mine"
    assert torch_state.read() == before


def test_a_copy_that_a_kernel_forked_does_not_come_back():
    """It went on with the plan, and forked again at the next call."""
    ours, forked = os.getpid(), []

    def forward(q, k, v, **arguments):
        if process := os.fork():
            forked.append(process)
        return NAIVE.forward(q, k, v, **arguments)

    found = availability(Implementation("forking", forward, "", FORWARD), "cpu")
    if os.getpid() != ours:
        os._exit(3)
    ends = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in forked]
    assert found == [] and ends == [1]


def test_what_a_probed_kernel_sets_for_all_is_not_kept():
    """A default device of "meta" ended the session when the next probe made its inputs."""
    setting = changing("torch.set_default_device('meta')")
    with torch_state.kept():
        found = probe_speeds([setting, NAIVE], "cpu", ("float32",), lambda: None)
        assert torch.get_default_device().type == "cpu"
    assert len(found) == 2
