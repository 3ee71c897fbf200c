"""The profile's rules, and what a GPU's kernels, ncu and perf would tell, from stand-ins."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from suites.profile import memory_counters
from suites.profile.dispatched import Dispatched
from suites.profile.kernels import ANNOTATION, table


def event(name, start, end, *children, device="CPU", kernels=(), is_mark=False):
    """An event as torch's profiler gives it, its time in µs."""
    made = SimpleNamespace(
        name=name,
        device_type=SimpleNamespace(name=device),
        time_range=SimpleNamespace(start=start, end=end, elapsed_us=lambda: end - start),
        cpu_children=list(children),
        cpu_parent=None,
        kernels=[SimpleNamespace(name=n, duration=d) for n, d in kernels],
        is_user_annotation=is_mark,
        self_cpu_time_total=end - start - sum(c.time_range.elapsed_us() for c in children),
    )
    for child in children:
        child.cpu_parent = made
    return made


def with_children(*events):
    return [one for root in events for one in (root, *with_children(*root.cpu_children))]


def on_gpu(name, start, end, **more):
    return event(name, start, end, device="CUDA", **more)


def test_on_a_gpu_kernels_that_overlap_count_once_and_idle_time_is_told():
    """Two calls: gemm 0-40 with a copy 30-50 beside it, then softmax 60-70; again 100 µs later."""
    gpu = [on_gpu(ANNOTATION, 0, 170, is_mark=True)]
    for at in (0, 100):
        gpu += [on_gpu("nvjet", at, at + 40), on_gpu("Memcpy DtoD", at + 30, at + 50)]
        gpu += [on_gpu("softmax_warp_forward", at + 60, at + 70)]
    hosts = [event(ANNOTATION, at, at + 90, is_mark=True) for at in (0, 100)]
    found = table([*gpu, *hosts], None)
    # From 0 to 170 there are 2 × (50 + 10) µs with a kernel.
    assert found.call_s == pytest.approx(85e-6)
    assert found.outside_s == pytest.approx((170 - 120) / 2 * 1e-6)
    times = {one.name: (one.calls, one.time_s) for one in found.kernels}
    assert times["nvjet"] == (1, pytest.approx(40e-6))
    assert [one.what for one in found.kernels] == ["GEMM", "copy", "softmax"]


def test_bytes_go_to_the_kernel_that_an_operator_launched_whichever_thread_it_is_on():
    """The backward's operators are below no annotation: they are on autograd's thread."""
    launch = event("cudaLaunchKernel", 3, 4)
    forward = event("aten::matmul", 1, 6, event("aten::bmm", 2, 5, launch, kernels=[("nvjet", 40)]))
    of_clone = event("aten::copy_", 21, 24, kernels=[("copy_kernel", 8)])
    backward = event("CloneBackward0", 19, 26, event("aten::clone", 20, 25, of_clone))
    call = event(ANNOTATION, 0, 10, forward, is_mark=True)
    gpu = [on_gpu("nvjet", 5, 45), on_gpu("copy_kernel", 46, 54)]
    noted = [Dispatched("aten::bmm", 600, 0), Dispatched("aten::clone", 200, 0)]
    # What is inside an operator that was noted is not seen by itself.
    noted.append(Dispatched("aten::copy_", 999, 0))
    found = table([*with_children(call, backward), *gpu], noted)
    assert {one.name: one.bytes for one in found.kernels} == {"nvjet": 600, "copy_kernel": 200}


def test_on_a_cpu_time_is_each_operators_own_and_views_are_no_kernels():
    """Of 100 µs: bmm 60 below matmul with 5 of its own, mul 20, the rest between them."""
    product = event("aten::matmul", 0, 65, event("aten::bmm", 2, 62))
    call = event(ANNOTATION, 0, 100, product, event("aten::mul", 70, 90), is_mark=True)
    found = table(with_children(call), [Dispatched("aten::mul", 32, 0)])
    assert {o.name: o.time_s for o in found.kernels} == pytest.approx(
        {"aten::bmm": 60e-6, "aten::mul": 20e-6}
    )
    assert found.bookkeeping_s == pytest.approx(5e-6)
    assert found.outside_s == pytest.approx(15e-6)
    assert {o.name: o.bytes for o in found.kernels} == {"aten::bmm": None, "aten::mul": 32}


def test_bytes_go_to_the_operator_that_did_the_work_however_long_its_wrapper_took():
    """A contiguous copy is a clone of 30 µs around a copy of 10."""
    clone = event("aten::clone", 0, 40, event("aten::copy_", 20, 30))
    call = event(ANNOTATION, 0, 50, clone, is_mark=True)
    found = table(with_children(call), [Dispatched("aten::clone", 200, 0)])
    assert [(one.name, one.bytes) for one in found.kernels] == [("aten::copy_", 200)]


def test_of_calls_on_a_cpu_the_faster_half_is_shown():
    """Of three, one was held up for 900 µs inside its operator."""
    calls = []
    for at, took in ((0, 100), (1000, 1000), (3000, 104)):
        work = event("aten::mul", at, at + took - 10)
        calls.append(event(ANNOTATION, at, at + took, work, is_mark=True))
    found = table(with_children(*calls), [Dispatched("aten::mul", 32, 0)])
    assert (found.calls, found.call_s) == (2, pytest.approx(102e-6))
    (work,) = found.kernels
    assert (work.calls, work.time_s, work.bytes) == (1, pytest.approx(92e-6), 32)
    assert found.outside_s == pytest.approx(10e-6)


NCU = """"ID","Process ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"
"0","7","flash_fwd","Command line profiler metrics","dram__bytes_read.sum","byte","1,048,576"
"0","7","flash_fwd","Command line profiler metrics","dram__bytes_write.sum","byte","524,288"
"1","7","reduce","Command line profiler metrics","dram__bytes_read.sum","byte","4,096"
"1","7","reduce","Command line profiler metrics","dram__bytes_write.sum","byte","0"
"""
FAKE_NCU = """#!/bin/sh
while [ "$1" != --log-file ]; do shift; done
cat > "$2" <<'TOLD'
==PROF== Connected to process 7
{}
TOLD
echo "$@" > "$ASKED"
"""
FAKE_PERF = """#!/usr/bin/env python3
import os, re, signal, sys, threading
asked = sys.argv
out = asked[asked.index("-o") + 1]
events = re.findall(r"[^,/]+/[^/]+/", asked[asked.index("-e") + 1])
control, ack = map(int, re.findall(r"\\d+", asked[asked.index("--control") + 1]))
told = []
def end(*_):
    assert told == ["enable", "disable"], told
    with open(out, "w") as file:
        for event in events:
            print("{count}", "{unit}", event, "100", "", "", sep=";", file=file)
    os._exit(0)
signal.signal(signal.SIGINT, end)
if {fails}:
    sys.exit("Error: Access to performance monitoring and observability operations is limited.")
for line in os.fdopen(control):
    told.append(line.strip())
    os.write(ack, b"ack\\n\\0")
    if told[-1] == "disable":
        threading.Event().wait()
"""


@pytest.fixture
def on_path(tmp_path, monkeypatch):
    """`on_path(name, text)` puts a program of this name first on the path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def put(name, text):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)

    return put


def channels(sources, *names):
    for name in names:
        events = sources / name / "events"
        events.mkdir(parents=True)
        if name.startswith("uncore"):
            for one in ("cas_count_read", "cas_count_write"):
                (events / one).write_text("event=0x4\n")


class Ready:
    """Stands for a cell that is warm."""

    device = "cpu"

    def __init__(self):
        self.calls = 0

    def run(self, calls):
        self.calls += calls


def counted(ready=None):
    return memory_counters.of_cpu(ready or Ready())  # type: ignore[arg-type]  # all it asks of it


@pytest.mark.parametrize(
    ("names", "count", "unit", "expected"),
    [
        # Two channels, reads and writes of each: four counts of 2.5 MiB in ten calls.
        (["uncore_imc_0", "uncore_imc_1"], "2.5", "MiB", 2**20),
        # AMD's counts are of cache lines: two of 100 lines.
        (["amd_umc_0"], "100", "", 2 * 100 * 64 / 10),
    ],
)
def test_dram_bytes_are_those_of_every_channel_by_perf(
    tmp_path, monkeypatch, on_path, names, count, unit, expected
):
    channels(tmp_path / "sources", *names)
    monkeypatch.setattr(memory_counters, "EVENT_SOURCES", tmp_path / "sources")
    on_path("perf", FAKE_PERF.format(count=count, unit=unit, fails=False))
    ready = Ready()
    found = counted(ready)
    assert (found.n_bytes, ready.calls) == (pytest.approx(expected), 10), found.told


@pytest.mark.parametrize(
    ("fails", "why"), [(True, "operations is limited"), (False, "not supported")]
)
def test_what_perf_refuses_is_the_reason(tmp_path, monkeypatch, on_path, fails, why):
    channels(tmp_path / "sources", "uncore_imc_0")
    monkeypatch.setattr(memory_counters, "EVENT_SOURCES", tmp_path / "sources")
    on_path("perf", FAKE_PERF.format(count="<not supported>", unit="", fails=fails))
    found = counted()
    assert found.n_bytes is None and why in found.told


def test_without_counters_of_the_memory_it_is_not_measured(tmp_path, monkeypatch, on_path):
    on_path("perf", "#!/bin/sh\nexit 9\n")
    monkeypatch.setattr(memory_counters, "EVENT_SOURCES", tmp_path / "none")
    assert counted().told == "the memory controllers' counters are not to be seen here"
    assert counted().n_bytes is None


def test_ncu_counts_every_kernel_of_one_call_of_the_same_command(tmp_path, monkeypatch, on_path):
    monkeypatch.setenv("ASKED", str(tmp_path / "asked"))
    on_path("ncu", FAKE_NCU.format(NCU))
    found = memory_counters.of_gpu(["naive", "T=1024,H=8,d_h=64"])
    assert found.n_bytes == 1048576 + 524288 + 4096
    asked = (tmp_path / "asked").read_text()
    assert asked.rstrip().endswith("-m suites profile naive T=1024,H=8,d_h=64 --under-ncu")


def test_what_ncu_complains_of_is_the_reason(monkeypatch, tmp_path, on_path):
    monkeypatch.setenv("ASKED", str(tmp_path / "asked"))
    why = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access counters"
    on_path("ncu", FAKE_NCU.format(why))
    found = memory_counters.of_gpu(["naive"])
    assert found.n_bytes is None and "ERR_NVGPUCTRPERM" in found.told
