"""`python -m suites doctor`: each thing that spoils a benchmark is seen, with what to type."""

from __future__ import annotations

import json
import stat
import sys
from types import SimpleNamespace

import pytest

from impls.interface import device_choice
from impls.interface.device_choice import Chosen
from suites.__main__ import main
from suites.doctor import command, gpu, machine, software, variables
from suites.measure import container_limits, host_load, nvml, processor, trust
from suites.measure.container_limits import Limits


def levels(found):
    return [finding.level for finding in found]


def the_problem(found):
    (finding,) = [finding for finding in found if finding.level == "problem"]
    assert finding.todo, "a problem comes with what to type"
    return finding


@pytest.fixture
def quiet(monkeypatch):
    """A machine on which nothing is wrong that depends on the hour."""
    idle = host_load.HostLoad(0.0, 0.0, 0, 0.01)
    monkeypatch.setattr(machine.host_load, "between", lambda *_: idle)
    monkeypatch.setattr(machine, "LOAD_SAMPLE_S", 0.0)
    monkeypatch.setattr(machine.psutil, "swap_memory", lambda: SimpleNamespace(used=0, sin=0))
    monkeypatch.setattr(processor, "governor", lambda: "performance")
    monkeypatch.setattr(software, "xformers", lambda device: command.Finding("ok", "xformers", ""))
    monkeypatch.setattr(software.allocator, "make_steady", lambda: software.allocator.STEADY)
    monkeypatch.setattr(container_limits, "read", lambda *_: Limits())
    monkeypatch.setattr(device_choice, "choose", lambda wanted: Chosen("cpu"))
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_PROC_BIND", "LD_PRELOAD"):
        monkeypatch.delenv(name, raising=False)


def test_all_is_well_ends_with_0_and_a_problem_with_1(quiet, monkeypatch, tmp_path, capsys):
    assert main(["doctor", "--store", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("all is well")
    monkeypatch.setattr(processor, "governor", lambda: "powersave")
    assert main(["doctor", "--store", str(tmp_path)]) == 1
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("PROBLEM  governor: powersave"), "the worst first"
    assert "cpupower frequency-set -g performance" in shown[1]
    assert shown[-1].startswith("1 to mend")


def test_json_lists_every_finding(quiet, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    assert main(["doctor", "--json", "--store", str(tmp_path)]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["healthy"] is False
    assert {f["subject"] for f in told["findings"]} >= {
        "versions", "xformers", "triton", "allocator", "variables", "GPU", "governor",
        "SMT", "container limits", "swap", "load", "store",
    }  # fmt: skip
    (problem,) = [f for f in told["findings"] if f["level"] == "problem"]
    assert problem["todo"] == "unset CUDA_LAUNCH_BLOCKING"


def test_a_gpu_that_torch_cannot_use_is_told_loudly(monkeypatch, tmp_path):
    """Case N04: nvidia-smi lists a GPU, torch was built without CUDA."""
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H100 (UUID: GPU-42)'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    if device_choice.torch.version.cuda is not None:
        monkeypatch.setattr(device_choice.torch.version, "cuda", None)
    found = the_problem(gpu.findings(device_choice.choose("auto"), {}, {}))
    assert "GPU present but unusable: torch built without CUDA" in found.told
    assert "pytorch.org/get-started" in (found.todo or "")


def test_an_old_driver_is_told_in_torchs_words():
    notice = "GPU present but unusable: The NVIDIA driver on your system is too old"
    found = the_problem(gpu.findings(Chosen("cpu", notice), {}, {}))
    assert "too old" in found.told and "update the driver" in (found.todo or "")


def test_who_else_computes_and_what_slows_a_gpu_is_told():
    fixed = {"driver": "570.86", "throttle_reasons": 0x40, "is_mig": False}
    found = list(gpu.findings(Chosen("cuda"), fixed, {"others": 2}))
    assert [f.subject for f in found if f.level == "problem"] == ["GPU processes", "GPU clock"]
    capped = list(gpu.findings(Chosen("cuda"), fixed | {"throttle_reasons": 4}, {"others": 0}))
    assert levels(capped) == ["ok", "note"], "at its power cap a GPU works as sold"
    blind = the_problem(gpu.findings(Chosen("cuda"), {}, {}))
    assert blind.todo == "pip install nvidia-ml-py"


def test_xformers_of_another_torch_is_told_with_both_versions(monkeypatch, tmp_path):
    """Case N01: it imports, and lists operators; its own record says what it was built for."""
    record = tmp_path / "cpp_lib.json"
    record.write_text('{"version": {"torch": "2.10.0+cu128"}}')
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    from impls import xformers_attention
    from impls.interface.availability import inability

    monkeypatch.setattr(xformers_attention.importlib.util, "find_spec", lambda name: spec)
    monkeypatch.setattr(xformers_attention, "version", lambda name: "0.0.35")
    inability.cache_clear()
    found = software.xformers("cpu")
    inability.cache_clear()
    assert found.level == "note" and found.told.endswith(": unavailable")
    assert "xformers 0.0.35 was built for torch 2.10.0+cu128" in found.told
    assert device_choice.torch.__version__ in found.told
    monkeypatch.setattr(software, "availability", lambda *_: [found.told])
    assert software.xformers("cuda").level == "problem"


def test_missing_xformers_and_triton_are_no_problem(monkeypatch):
    """Case N02: both are optional."""
    monkeypatch.setattr(software.importlib.util, "find_spec", lambda name: None)
    assert levels([software.xformers("cpu"), software.triton("cpu")]) == ["note", "note"]


def test_versions_out_of_range_are_told_with_what_to_install():
    project = {"requires-python": ">=3.11", "dependencies": ["numpy>=1.26", "rich>=13.7", "x>=1"]}
    here = {"numpy": "1.20.0", "rich": "14.0", "torch": "2.13.0"}
    found = [f for f in software.versions(project, here) if f.level == "problem"]
    assert [f.told for f in found[:2]] == [
        "numpy 1.20.0, the checkout needs >=1.26",
        "x is not installed",
    ]
    assert f"{sys.executable} -m pip install 'numpy>=1.26'" == found[0].todo
    old = list(software.versions({"requires-python": ">=3.99", "dependencies": []}, {}))
    assert "the checkout needs >=3.99" in the_problem(old).told
    assert levels(software.versions({"requires-python": ">=3.11", "dependencies": []}, {})) == [
        "ok"
    ]


def test_a_triton_that_torch_did_not_ask_for_is_told(monkeypatch):
    monkeypatch.setattr(software.importlib.metadata, "requires", lambda _: ["triton==3.7.1"])
    project = {"requires-python": ">=3.11", "dependencies": []}
    found = the_problem(software.versions(project, {"torch": "2.13.0", "triton": "3.6.0"}))
    assert found.told == "triton 3.6.0, torch 2.13.0 asks for ==3.7.1"


@pytest.mark.parametrize(
    ("given", "level", "words"),
    [
        ({"OMP_NUM_THREADS": "abc"}, "problem", "not a number"),
        ({"OMP_NUM_THREADS": "0"}, "problem", "not a number"),
        ({"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "2"}, "problem", "differ"),
        ({"OMP_NUM_THREADS": "1"}, "note", "OMP_NUM_THREADS=1"),
        ({"GOMP_CPU_AFFINITY": "0"}, "note", "pins"),
        ({"TRITON_INTERPRET": "1"}, "problem", "interpreter"),
        ({"ATEN_CPU_CAPABILITY": "default"}, "problem", "older processor"),
        ({"ONEDNN_DEFAULT_FPMATH_MODE": "BF16"}, "problem", "may be bfloat16"),
        ({"ONEDNN_DEFAULT_FPMATH_MODE": "STRICT"}, "ok", "none"),
        ({"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1"}, "problem", "TF32"),
        ({"LD_PRELOAD": "/usr/lib/libjemalloc.so.2"}, "problem", "jemalloc"),
        ({"CUDA_LAUNCH_BLOCKING": "0", "PATH": "/bin"}, "ok", "none"),
    ],
)  # fmt: skip
def test_variables_that_change_a_time_are_told(given, level, words):
    found = [f for f in variables.findings(given) if words in f.told]
    assert [f.level for f in found[:1]] == [level]


def test_the_processor_is_told_from_what_linux_says(tmp_path):
    (tmp_path / "cpu/smt").mkdir(parents=True)
    (tmp_path / "cpu/smt/active").write_text("1\n")
    (tmp_path / "clocksource/clocksource0").mkdir(parents=True)
    (tmp_path / "clocksource/clocksource0/current_clocksource").write_text("hpet\n")
    assert machine.smt(tmp_path).level == "note"
    assert "hpet" in the_problem(machine.clock(tmp_path)).told
    assert machine.smt(tmp_path / "nothing").level == "ok"
    assert levels(machine.clock(tmp_path / "nothing")) == ["ok"]


def test_limits_swap_load_and_heat_are_told(monkeypatch):
    tight = Limits(cpus=1.5, memory_bytes=4 << 30, memory_free_bytes=1 << 30, throttled=7)
    found = list(machine.container(tight, 4))
    assert "1.5 CPUs of 4" in the_problem(found).told and "7 times" in the_problem(found).told
    assert found[1].level == "note" and "1.07 GB left" in found[1].told
    assert levels(machine.container(Limits(cpus=4.0), 4)) == ["ok"]
    assert machine.swap(500 << 20).level == "problem" and machine.swap(0).level == "ok"
    assert machine.affinity(2, 8).level == "note" and machine.affinity(8, 8).level == "ok"
    assert levels(machine.heat(3)) == ["note"] and levels(machine.heat(None)) == []
    assert levels(machine.power(SimpleNamespace(power_plugged=False))) == ["problem"]
    assert levels(machine.power(None)) == []
    busy = host_load.HostLoad(0.0, 0.0, 0, 0.4)
    monkeypatch.setattr(machine, "LOAD_SAMPLE_S", 0.0)
    monkeypatch.setattr(machine.host_load, "between", lambda *_: busy)
    assert "others use 40% of the machine" in the_problem([machine.load()]).told


def test_another_allocator_and_a_store_that_is_a_file_are_told(tmp_path):
    never = tmp_path / "enabled"
    never.write_text("always madvise [never]\n")
    assert levels(software.memory_allocator("default (not glibc)", never)) == ["problem"]
    assert levels(software.memory_allocator(software.allocator.STEADY, never)) == ["ok", "note"]
    (tmp_path / "file").write_text("")
    assert machine.disk(tmp_path / "file" / "runs").level == "problem"
    assert machine.disk(tmp_path / "new" / "runs").level == "ok"


def group(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(f"{text}\n")


def test_limits_are_read_of_both_versions_of_control_groups(tmp_path):
    two, one, none = tmp_path / "two", tmp_path / "one", tmp_path / "none"
    group(two / "proc/self", cgroup="0::/a/bé")
    group(two / "sys/fs/cgroup/a", cpu__max="150000 100000", memory__max="max")
    used = {"memory__current": 900, "memory__stat": "anon 1\ninactive_file 300"}
    group(two / "sys/fs/cgroup/a/bé", cpu__max="max 100000", memory__max=1000, **used)
    group(two / "sys/fs/cgroup/a/bé", cpu__stat="nr_periods 9\nnr_throttled 4")
    assert container_limits.read(two) == Limits(1.5, 1000, 400, 4)
    group(one / "proc/self", cgroup="4:memory:/docker/7\n3:cpu,cpuacct:/docker/7")
    # In the container the host's path is not there: its own group is the top.
    no_limit = 9223372036854771712
    group(one / "sys/fs/cgroup/memory", memory__limit_in_bytes=no_limit, memory__usage_in_bytes=5)
    group(one / "sys/fs/cgroup/cpu", cpu__cfs_quota_us=50000, cpu__cfs_period_us=100000)
    assert container_limits.read(one) == Limits(cpus=0.5)
    assert container_limits.read(none) == Limits()


def test_memory_that_a_container_limits_is_what_there_is(monkeypatch):
    whole, _ = processor.memory_bytes()
    limits = Limits(memory_bytes=2 << 30, memory_free_bytes=1 << 30)
    monkeypatch.setattr(container_limits, "read", lambda *_: limits)
    assert processor.memory_bytes() == (2 << 30, 1 << 30)
    assert whole and whole > 2 << 30


def test_what_spoiled_a_cell_is_on_its_row_with_a_flag():
    fields = {"flags": ["low_n"], "device_state": {"power_w": 700.0}, "host": {"looks": 1}}
    before = trust.Reading(1.0, 2.0, 5, 4096, 0)
    after = trust.Reading(1.5, 2.25, 5, 8192, 1)
    told = trust.told(fields, before, after)
    assert told["flags"] == ["low_n", "throttled", "contended"]
    assert told["device_state"] == {
        "power_w": 700.0,
        "thermally_throttled_s": 0.5,
        "power_capped_s": 0.25,
        "other_processes": 1,
    }
    assert told["host"] == {"looks": 1, "cpu_throttles": 0, "swapped_in_bytes": 4096}
    calm = trust.told(fields, before, before)
    assert calm["flags"] == ["low_n"]
    unknown = trust.told(fields, trust.Reading(), trust.Reading())
    assert unknown["flags"] == ["low_n"] and unknown["device_state"]["power_capped_s"] is None
    hot = trust.told(fields, trust.Reading(), trust.Reading(throttle_count=2))
    assert "throttled" not in hot["flags"], "an unknown before is no difference"
    assert trust.flagged([], told) == ["throttled", "contended"], "further looks keep them"


def test_a_gpu_tells_what_slowed_it_and_who_else_computes(monkeypatch):
    class Nvml:
        NVML_PERF_POLICY_THERMAL, NVML_PERF_POLICY_POWER = 1, 0

        class NVMLError(Exception):
            """What NVML raises."""

        def nvmlInit(self):
            pass

        def nvmlDeviceGetHandleByUUID(self, uuid):
            return "handle"

        def nvmlDeviceGetViolationStatus(self, handle, policy):
            if policy == self.NVML_PERF_POLICY_POWER:
                raise self.NVMLError("not supported")
            return SimpleNamespace(violationTime=2_500_000_000)

        def nvmlDeviceGetComputeRunningProcesses(self, handle):
            return [SimpleNamespace(pid=n) for n in (nvml.os.getpid(), 7, 8)]

    monkeypatch.setitem(sys.modules, "pynvml", Nvml())
    assert nvml.trust("42") == {"thermal_s": 2.5, "power_s": None, "others": 2}
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert nvml.trust("42") == {}


def test_heat_is_counted_over_the_cores(tmp_path):
    for n, count in enumerate((3, 4)):
        group(tmp_path / f"cpu{n}/thermal_throttle", core_throttle_count=count)
    assert trust.cpu_throttle_count(tmp_path) == 7
    assert trust.cpu_throttle_count(tmp_path / "nothing") is None


def test_the_help_shows_two_examples(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["doctor", "--help"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out.count("  python -m suites doctor") == 2
