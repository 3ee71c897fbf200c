"""The environment of a run, its machine key, and the allocator's policy."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from results.comparable import IGNORED
from suites.measure import environment, processor
from suites.measure.environment import (
    FIELDS,
    checkout,
    machine_key,
    read_environment,
    repository,
    version_of,
)

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def here():
    return read_environment("cpu")


def python(code, **variables):
    """What a fresh Python printed as JSON, with these environment variables (None unsets)."""
    given = {k: v for k, v in (os.environ | variables).items() if v is not None}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=given,
        cwd=ROOT,
        timeout=600,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_every_field_is_read_and_is_strict_json(here):
    assert list(here) == [field.name for field in FIELDS]
    assert json.loads(json.dumps(here, allow_nan=False)) == here


def test_reading_takes_less_than_a_second_of_this_process_and_its_children(here):
    """Of CPU time: on a busy machine the wall says nothing."""
    before = os.times()
    read_environment("cpu")
    assert sum(os.times()[:4]) - sum(before[:4]) < 1


def test_gpu_fields_are_null_on_a_cpu(here):
    assert here["device"] == "cpu"
    assert [here[name] for name in here if name.startswith("gpu") or "driver" in name] == [None] * 9


def test_threads_are_what_torch_uses_now(here):
    assert here["threads"] == torch.get_num_threads()


HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
CHILD = """
import json, re, resource, sys
from suites.measure import allocator
policy = allocator.make_steady()
import torch
from suites.measure.environment import read_environment

def big():
    torch.ones(8 << 20)

# The heap needs a few calls until the hole that a tensor leaves is the next one's.
for _ in range(10):
    big()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    big()
faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def flags_of_page(address):
    # "hg" says that huge pages are asked for there (proc_pid_smaps(5)).
    inside = False
    for line in open("/proc/self/smaps"):
        if re.match("[0-9a-f]+-[0-9a-f]+ ", line):
            low, high = (int(end, 16) for end in line.split()[0].split("-"))
            inside = low <= address < high
        elif inside and line.startswith("VmFlags:"):
            return line.split()[1:]
    return []

print(json.dumps({
    "environment": read_environment("cpu"),
    "threads": torch.get_num_threads(),
    "policy": policy,
    "faults": faults,
    "page_flags": flags_of_page(torch.ones(8 << 20).data_ptr()),
    "imported": [name for name in ("triton", "xformers") if name in sys.modules],
}))
"""


@pytest.fixture(scope="module")
def children():
    """A fresh process with each value of OMP_NUM_THREADS."""
    return {given: python(CHILD, OMP_NUM_THREADS=given) for given in ("1", "abc")}


@pytest.mark.slow
def test_threads_recorded_are_those_of_the_run_time(children):
    """Case U01, pytorch#58585: what is asked for and what runs differ, and 1 and N are mixed."""
    for child in children.values():
        assert child["environment"]["threads"] == child["threads"]
    assert children["1"]["threads"] == 1


@pytest.mark.slow
def test_threads_that_are_no_number_are_warned_about(children):
    assert children["1"]["environment"]["warnings"] == []
    (told,) = children["abc"]["environment"]["warnings"]
    threads = children["abc"]["threads"]
    assert told == f'OMP_NUM_THREADS="abc" is not a number of threads: torch uses {threads}'


@pytest.mark.parametrize(("given", "n"), [("0", 1), ("-2", 1), ("", 1), ("4", 0), ("2,1", 0)])
def test_only_a_whole_number_of_threads_passes_without_a_warning(given, n, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    assert len(read_environment("cpu")["warnings"]) == n


def test_unset_threads_are_torchs_own_and_no_warning(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    read = read_environment("cpu")
    assert (read["threads"], read["warnings"]) == (torch.get_num_threads(), [])


@pytest.mark.parametrize("precision", ["high", "medium"])
def test_float32_that_is_rounded_to_tf32_is_warned_about_and_in_the_key(here, precision):
    assert here["float32_matmul_precision"] == "highest"
    try:
        torch.set_float32_matmul_precision(precision)
        rounded = read_environment("cpu")
    finally:
        torch.set_float32_matmul_precision("highest")
    assert rounded["float32_matmul_precision"] == precision
    assert any("no float32 results" in warning for warning in rounded["warnings"])
    assert machine_key(rounded) != machine_key(here)


def test_a_variable_that_changes_what_is_measured_is_warned_about(monkeypatch):
    """Two nights with and without it would be a regression of nobody's."""
    before = read_environment("cpu")["warnings"]
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    monkeypatch.setenv("ONEDNN_DEFAULT_FPMATH_MODE", "STRICT")
    told = "ATEN_CPU_CAPABILITY=default: torch takes kernels for an older processor"
    assert read_environment("cpu")["warnings"] == [*before, told]
    assert "warnings" not in IGNORED, "a gate tells of a difference"


def test_versions_come_without_importing(children):
    assert children["1"]["imported"] == []


def test_the_steady_allocator_keeps_pages_and_is_in_the_fingerprint(children):
    """Default glibc zeroes the pages of a large temporary anew at every call."""
    child = children["1"]
    assert child["environment"]["allocator"] == child["policy"]
    if child["policy"].startswith("glibc"):
        # 5 tensors of 32 MiB are 40 960 pages when each is mapped anew.
        assert child["faults"] < 1000
    else:
        assert child["policy"] == "default (not glibc)"


def test_large_tensors_lie_in_huge_pages_where_the_policy_says_so(children):
    """Which cache sets small pages share is chance: naive differed by 3 % from launch to launch."""
    child = children["1"]
    assert ("hg" in child["page_flags"]) == ("huge_pages=" in child["policy"])
    has_them = "[never]" not in HUGE_PAGES.read_text() if HUGE_PAGES.exists() else False
    if child["policy"].startswith("glibc") and has_them:
        assert "huge_pages=" in child["policy"]


def test_the_key_is_12_hex_digits_and_repeats(here):
    assert len(machine_key(here)) == 12
    assert int(machine_key(here), 16) >= 0
    assert machine_key(here) == machine_key(read_environment("cpu"))


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_only_key_fields_move_the_key(here, field):
    other = here | {field.name: "something else"}
    assert (machine_key(other) != machine_key(here)) == field.is_key


def test_what_makes_timings_incomparable_is_in_the_key():
    key = {field.name for field in FIELDS if field.is_key}
    assert {"threads", "allocator", "torch", "triton", "ptxas", "container", "cpu_model"} <= key
    assert not {"cpu_mhz", "hostname", "kernel", "commit", "load_1min"} & key


def test_the_commit_and_changes_of_a_checkout_are_read(tmp_path, monkeypatch):
    def git(*arguments):
        named = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        subprocess.run(["git", "-C", tmp_path, *named, *arguments], check=True, capture_output=True)

    assert checkout(tmp_path) == (None, None)
    git("init")
    assert checkout(tmp_path) == (None, None), "no commit yet"
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-m", "First")
    commit, dirty = checkout(tmp_path)
    assert commit is not None
    assert (len(commit), dirty) == (40, False)
    (tmp_path / "file").write_text("2")
    assert checkout(tmp_path) == (commit, True)
    # As in a container, where git answers nothing of another user's files.
    with monkeypatch.context() as context:
        context.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
        assert checkout(tmp_path) == (commit, True)
    (tmp_path / "inside").mkdir()
    assert checkout(tmp_path / "inside") == (None, None), "an unpacked copy in another checkout"


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://github.com/owner/name.git", "github.com/owner/name"),
        ("https://me:se@cret.word@gitlab.com/a/group/name/", "gitlab.com/a/group/name"),
        ("git@github.com:owner/name.git", "github.com/owner/name"),
        ("ssh://git@codeberg.org:2222/owner/name", "codeberg.org/owner/name"),
        ("https://me:se@cret.word:x@github.com/owner/name", "github.com/owner/name"),
        *((url, None) for url in ("../name.git", "/srv/git/name.git", "file:///srv/name.git")),
    ],
)
def test_where_others_find_a_pushed_commit_is_told_without_a_password(tmp_path, url, place):
    def git(*arguments):
        named = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        subprocess.run(["git", "-C", tmp_path, *named, *arguments], check=True, capture_output=True)

    git("init")
    git("commit", "--allow-empty", "-m", "First")
    git("remote", "add", "origin", url)
    assert repository(tmp_path) is None, "not pushed"
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    assert repository(tmp_path) == place
    git("commit", "--allow-empty", "-m", "Second")
    assert repository(tmp_path) is None, "not pushed since"


def test_without_git_there_is_no_commit(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert checkout() == (None, None) and repository() is None


def test_a_missing_distribution_has_no_version():
    assert version_of("no-such-distribution-of-attnbench") is None


def test_elsewhere_than_on_glibc_nothing_is_changed(monkeypatch):
    from suites.measure import allocator

    monkeypatch.setattr(allocator, "_policy", "default")
    monkeypatch.setattr(allocator.platform, "libc_ver", lambda: ("", ""))
    monkeypatch.setattr(allocator.ctypes, "CDLL", None)
    assert allocator.make_steady() == allocator.policy() == "default (not glibc)"


@pytest.mark.parametrize(
    ("written", "n_bytes"),
    [("32K", 32768), ("1024K", 1 << 20), ("32M", 32 << 20), ("512", 512), ("", None), (None, None)],
)
def test_cache_sizes_are_read_as_the_kernel_writes_them(written, n_bytes):
    assert processor._size_bytes(written) == n_bytes


def test_unknown_caches_are_null(monkeypatch, tmp_path):
    monkeypatch.setattr(processor, "_CACHES", tmp_path)
    processor.cache_bytes.cache_clear()
    try:
        assert (processor.l2_bytes(), processor.llc_bytes()) == (None, None)
    finally:
        processor.cache_bytes.cache_clear()


def test_a_container_is_told_by_its_variable(monkeypatch):
    monkeypatch.setenv("container", "lxc-test")
    assert processor.container() == "lxc-test"


def test_the_driver_counts_by_its_major_version():
    assert environment._major("570.86.10") == 570
    assert environment._major(None) is None
