"""`python -m suites static`: what it compiles, how a kernel is brought, what it writes and says."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from impls.interface.static_kernel import Build
from results.reading import Place
from results.static_profile import read_static
from results.store import load_run
from suites.__main__ import main
from suites.static import workers
from suites.static.brought import brought_build, constants_of
from suites.static.compiler import Misused
from suites.static.job import Job, Toolchain, identity
from suites.static.ranking import ranked, ranking
from suites.static.selection import Wanted, select
from suites.static.worker import record_of
from tests.fake_profiles import profile as record

TOOLCHAINS: dict[int, Toolchain] = dict.fromkeys((80, 90, 100), Toolchain("3.7.1", "12.8.93"))
README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
ADD = re.search(r"cat > add\.py <<'EOF'\n(.*?)^EOF$", README, re.DOTALL | re.MULTILINE)
COMMAND = re.search(r"suites static (--kernel add\.py:add --signature .*)", README)
assert ADD and COMMAND
FILE = ADD[1]
DOCUMENTED = shlex.split(COMMAND[1])
SIGNATURE = DOCUMENTED[3]
WRONG = """
import triton
import triton.language as tl


@triton.jit
def wrong(x, y, z, n, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), nowhere)
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The README's file of a kernel, in the current folder; cache and runs are the test's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("ATTNBENCH_STORE", str(tmp_path / "runs"))
    file = tmp_path / "add.py"
    file.write_text(FILE)
    return file


def jobs(**wanted):
    return select(Wanted(**wanted)).jobs


def test_the_default_is_every_kernel_in_bf16_at_two_head_sizes_for_three_architectures():
    found = jobs(kernels=("triton_flash_forward",))
    asked = {(j.arch, j.dtype, j.d_h, j.is_default) for j in found}
    archs = ("sm_80", "sm_90", "sm_100")
    assert asked == {(arch, "bf16", d_h, True) for arch in archs for d_h in (64, 128)}
    assert len(found) == 6, "one variant of each"
    assert {j.name for j in jobs()} > {"triton_flash_forward", "triton_decode_split"}


def test_all_is_every_dtype_head_size_and_variant_and_a_further_architecture():
    found = jobs(kernels=("triton_flash_forward",), everything=True)
    assert {j.dtype for j in found} == {"bf16", "fp16", "fp32"}
    assert {j.d_h for j in found} == {40, 64, 80, 96, 128, 160, 192, 256}
    assert {j.arch for j in found} == {"sm_80", "sm_90", "sm_100", "sm_120"}
    tf32x3 = [j for j in found if j.build and j.build.constants["PRECISION"] == "tf32x3"]
    assert {j.dtype for j in tf32x3} == {"fp32"}
    assert {j.arch for j in tf32x3} == {"sm_80", "sm_90", "sm_120"}
    assert (len(found), len(tf32x3)) == (3 * 8 * 4 * 3 + 15, 15), "to d_h = 128"
    few = jobs(kernels=("triton_flash_forward",), archs=("sm_90",), head_sizes=(96,))
    assert [(j.arch, j.d_h) for j in few] == [("sm_90", 96)]


def test_a_sweep_takes_the_kernels_own_names_and_those_of_every_tile():
    sweep = {"BLOCK_M": [64, 128], "num_warps": [4, 8]}
    wanted = {"kernels": ("triton_flash_forward",), "archs": ("sm_90",), "head_sizes": (128,)}
    found = jobs(**wanted, sweep=sweep)
    blocks = [j.build.block for j in found if j.build]
    assert {(b["BLOCK_Q"], b["num_warps"]) for b in blocks} == {
        (64, 4), (64, 8), (128, 4), (128, 8),
    }  # fmt: skip
    assert [j.is_default for j in found].count(True) == 1, "128 queries by 8 warps is the default"
    own = jobs(**wanted, sweep={"BLOCK_Q": [64, 128], "num_warps": [4, 8]})
    assert own == found
    selected = select(Wanted(sweep={"BLOCK_Q": [64]}, archs=("sm_90",), head_sizes=(64,)))
    assert not [j for j in selected.jobs if "decode" in j.name]
    assert any("triton_decode_split has no BLOCK_Q" in line for line in selected.left_out)


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"kernels": ("triton_flash_forwrd",)}, 'did you mean "triton_flash_forward"'),
        ({"dtypes": ("bfloat16",)}, 'no dtype "bfloat16": one of bf16'),
        ({"archs": ("sm_75",)}, "sm_75 is not known"),
        ({"sweep": {"BLOCK": [1]}}, "nothing to compile; .*has no BLOCK: its block has BLOCK_Q"),
    ],
)
def test_what_cannot_be_compiled_is_told(wanted, told):
    with pytest.raises(ValueError, match=told):
        select(Wanted(**wanted))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--d_h", "300"], "--d_h 300: a whole number from 1 to 256"),
        (["--sweep", "BLOCK_M"], "write BLOCK_M=64,128"),
        (["--constants", "BLOCK"], "write BLOCK=1024"),
        (["--signature", "i32"], "of a kernel of yours: --kernel FILE:NAME"),
        (["--arch", "hopper"], "write sm_90"),
    ],
)
def test_a_wrong_option_is_told_in_one_line(capsys, arguments, told):
    assert main(["static", *arguments]) == 2
    assert told in capsys.readouterr().err


def test_constants_are_numbers_truths_or_words():
    found = constants_of("BLOCK=1024, IS_CAUSAL=True num_warps=8,PRECISION=tf32x3")
    assert found == {"BLOCK": 1024, "IS_CAUSAL": True, "num_warps": 8, "PRECISION": "tf32x3"}


def triton_kernel():
    pytest.importorskip("triton")
    from impls.triton_flash.canary import bf16_dot_and_cast

    return bf16_dot_and_cast


def test_a_signature_is_in_order_or_by_name():
    kernel = triton_kernel()
    job = Job("f.py:bf16_dot_and_cast", 90, signature="*bf16, *fp32:1, *fp32, *bf16:16")
    names = ("p_ones", "p_values", "p_product", "p_rounded")
    build = brought_build(kernel, job)
    assert build.types == dict(zip(names, ("*bf16", "*fp32", "*fp32", "*bf16"), strict=True))
    assert build.unaligned == ("p_values",)
    assert build.block == {"num_warps": 4, "num_stages": 3}
    by_name = "p_rounded=*bf16,p_ones=*bf16,p_values=*fp32:1,p_product=*fp32"
    assert brought_build(kernel, Job(job.kernel, 90, signature=by_name)).types == build.types
    for wrong in ("", "*bf16", "*bf16,*fp32,*fp32,*bf16,i32", "p_ones=*bf16,what=i32"):
        with pytest.raises(Misused, match="4 arguments to be typed"):
            brought_build(kernel, Job(job.kernel, 90, signature=wrong))


def test_an_identity_is_the_content_and_nothing_else():
    job = Job("impls.a:f", 90, "bf16", 64, Build({}, {}, {}))
    one = identity(job, TOOLCHAINS[90], {"A": 1, "B": 2}, {"num_warps": 4})
    same = identity(job, TOOLCHAINS[90], {"B": 2, "A": 1}, {"num_warps": 4})
    assert one["cell"] == same["cell"] and len(one["cell"]) == 16
    others = [
        identity(job, Toolchain("3.7.1", "13.1.80"), {"A": 1, "B": 2}, {"num_warps": 4}),
        identity(job, TOOLCHAINS[90], {"A": 2, "B": 2}, {"num_warps": 4}),
        identity(job, TOOLCHAINS[90], {"A": 1, "B": 2}, {"num_warps": 8}),
    ]
    assert len({one["cell"], *(other["cell"] for other in others)}) == 4


def test_a_ranking_puts_what_fits_and_spills_nothing_first():
    best = record()
    spilling = record(block__num_warps=4, hot_loop__spill_stores=2)
    lower = record(block__BLOCK_Q=64, bound__overlap_percent=80.0)
    refused = record(
        block__BLOCK_KV=256, status="error", reasons=["does not fit\nat 1:1"],
        resources=None, hot_loop=None, bound=None,
    )  # fmt: skip
    order = ranked([refused, spilling, lower, best])
    assert [r["block"] for r in order] == [r["block"] for r in (best, lower, spilling, refused)]
    text = ranking([refused, spilling, lower, best])
    assert max(map(len, text.splitlines())) <= 80
    lines = text.splitlines()
    assert lines[0] == "triton_flash_forward, sm_90, bf16, d_h 128"
    assert [line.split("  ")[0] for line in lines[2:6]] == [
        "Q 128, KV 128, w8 s2*", "Q 64, KV 128, w8 s2*", "Q 128, KV 128, w4 s2*",
        "Q 128, KV 256, w8 s2*",
    ]  # fmt: skip
    assert "  does not fit" in lines and "at 1:1" not in text


def test_a_vector_addition_has_a_profile(mine):
    pytest.importorskip("triton")
    constants = constants_of(DOCUMENTED[5])
    job = Job(f"{mine}:add", 90, signature=SIGNATURE, constants=constants)
    read = read_static(record_of(job), Place("line"))
    assert (read.status, read.kernel, read.origin) == ("ok", "add", str(mine))
    assert read.constants == {"BLOCK": 1024} and read.dtype is None and read.d_h is None
    assert read.resources and read.hot_loop and read.bound
    assert 8 <= read.resources.registers <= 64 and read.resources.warps == 4
    assert read.resources.spill_stores == read.resources.shared_bytes == 0
    # 1024 elements by 128 threads, four a load: 2 · 2 loads and 2 stores, and 8 additions.
    assert (read.hot_loop.mix["global"], read.hot_loop.opcodes["FADD"]) == (6, 8)
    assert (read.bound.of, read.bound.limited_by) == ("dram", "dram")


def test_a_file_that_does_not_compile_gives_the_compilers_words(mine, capfd):
    pytest.importorskip("triton")
    (mine.parent / "wrong.py").write_text(WRONG)
    asked = ["--kernel", "wrong.py:wrong", "--kernel", "add.py:add", "--arch", "sm_80,sm_90"]
    code = main(["static", *asked, "--signature", SIGNATURE, "--constants", "BLOCK=64"])
    out, err = capfd.readouterr()
    assert code == 2
    message = err[err.index("static: wrong.py:wrong for sm_90, sm_80: ") :]
    assert message.splitlines()[0].endswith("NameError('nowhere is not defined')")
    assert "tl.store(x + tl.arange(0, BLOCK), nowhere)" in message
    assert message.count("nowhere)") == 1, "told once for both"
    assert "Traceback" not in err and "wrong" in out and "add" in out
    # The other kernel was compiled, and all of it is a run.
    (folder,) = (mine.parent / "runs").glob("static-triton*/*")
    run = load_run(folder)
    assert run.counts == {"ok": 2, "error": 2} and run.state == "finished" and run.cells == ()
    assert run.header.kind == "static" and run.header.device == "none"
    assert run.header.settings.all["rates"]["sm_90"]["mma_flop"] == 4096


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def f(:\n", "SyntaxError"),
        ("raise OSError('no such thing')\n", "no such thing"),
        ("def f():\n    pass\n", "is no Triton kernel: decorate it with @triton.jit"),
        ("g = 1\n", 'has no "f"'),
    ],
)
def test_a_file_that_cannot_be_used_is_told_without_a_traceback(mine, text, told):
    pytest.importorskip("triton")
    mine.write_text(text)
    with pytest.raises(Misused, match=told):
        record_of(Job(f"{mine}:f", 90))


def test_a_compiler_that_dies_takes_nothing_with_it(mine):
    mine.write_text("import os\n\nos._exit(7)\n")
    (found,) = workers.compiled([Job(f"{mine}:f", 90)], TOOLCHAINS)
    assert found[1]["status"] == "crashed"
    assert found[1]["reasons"] == ["the compiler's process ended with exit code 7"]
    assert read_static(found[1], Place("line")).kernel == "f"


def test_a_compiler_that_hangs_is_ended(mine):
    mine.write_text("import time\n\ntime.sleep(600)\n")
    (found,) = workers.compiled([Job(f"{mine}:f", 90)], TOOLCHAINS, limit_s=0.2)
    assert found[1]["status"] == "timeout"
    assert found[1]["reasons"] == ["compiling took longer than 0.2 s"]


@pytest.mark.slow
def test_two_compilations_from_nothing_agree_in_every_figure(tmp_path, monkeypatch):
    pytest.importorskip("triton")
    (job,) = jobs(kernels=("triton_flash_forward",), archs=("sm_100",), head_sizes=(128,))
    found = []
    for cache in ("a", "b"):
        monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / cache))
        # sm_100's ptxas gives other code each time, and the same figures.
        record = record_of(job)
        del record["started_utc"], record["elapsed_s"]
        found.append(record)
    assert found[0]["status"] == "ok"
    assert found[0] == found[1]


@pytest.mark.slow
def test_the_documented_command_profiles_a_vector_addition(mine, capfd):
    assert main(["static", *DOCUMENTED]) == 0
    out, _ = capfd.readouterr()
    assert all(arch in out for arch in ("sm_80", "sm_90", "sm_100"))
    assert (
        main(["static", *DOCUMENTED, "--sweep", "BLOCK=256,1024", "num_warps=1,4", "--json"]) == 0
    )
    found = json.loads(capfd.readouterr().out)
    assert len(found["profiles"]) == 3 * 4 and Path(found["path"]).is_dir()
