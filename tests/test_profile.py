"""`python -m suites profile`: one cell's kernels, told as a user sees them."""

from __future__ import annotations

import gzip
import json

import pytest

from impls.interface import first_call
from impls.interface.problem import Problem
from suites.__main__ import main
from suites.measure import allocator
from suites.profile import profiled
from tests.fake_run import cell as measured_cell

SLEEPER = """
import time
from torch.nn.functional import scaled_dot_product_attention

seen = []

def attention(q, k, v):
    # When it is tried and in the cell's first call it compiles; the others are a known wait.
    time.sleep(0.02 if len(seen) > 2 else 0.3)
    seen.append(1)
    return scaled_dot_product_attention(q, k, v)

def copying(q, k, v):
    for _ in range(3):
        k = k.clone()
    return scaled_dot_product_attention(q, k, v)

def faulting(q, k, v):
    import mmap
    import torch
    fresh = torch.frombuffer(mmap.mmap(-1, 4 * k.numel()), dtype=torch.float32)
    fresh.copy_(k.reshape(-1))
    return scaled_dot_product_attention(q, fresh.view(k.shape), v)

def wrong(q, k, v):
    return q + v
"""


@pytest.fixture
def profile(tmp_path, monkeypatch, capsys):
    """`profile(*words)` → exit code, record or None, and stderr; `kernel.py` is brought from."""
    # The policy holds for a whole process, and this is the one of all tests.
    monkeypatch.setattr(allocator, "make_steady", lambda: "as it is")
    # A brought kernel is first called in a process of its own, which takes two seconds.
    monkeypatch.setattr(first_call, "_died", lambda *_: None)
    for name, value in (("WARM_S", 0.01), ("CALLS_S", 0.05)):
        monkeypatch.setattr(profiled, name, value)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernel.py").write_text(SLEEPER)

    def run(*words, out="look"):
        code = main(["profile", *words, "--device", "cpu", "--json", "--out", str(tmp_path / out)])
        told = capsys.readouterr()
        return code, json.loads(told.out) if told.out else None, told.err

    return run


def rows(record):
    return {kernel["name"]: kernel for kernel in record["kernels"]}


def adds_up(record):
    """Every moment of the call is in a kernel, in bookkeeping, or told to be outside."""
    parts = sum(kernel["time_s"] for kernel in record["kernels"])
    whole = parts + record["bookkeeping_s"] + record["outside_s"]
    return whole == pytest.approx(record["call_s"], rel=0.01)


def test_of_naive_attention_two_products_take_most_and_move_what_they_must(profile):
    code, found, _ = profile("naive", "B=1,T=64,H=4,d_h=512", "full")
    assert code == 0 and found["check"]["ok"] and adds_up(found)
    products, softmax = rows(found)["aten::bmm"], rows(found)["aten::_softmax"]
    assert (products["what"], softmax["what"]) == ("GEMM", "softmax")
    assert (products["calls"], softmax["calls"]) == (2, 1)
    assert found["kernels"][0]["name"] == "aten::bmm" and products["share"] > 0.5
    # q·kᵀ: q, k and the scores; P·v: the same sizes. Of the softmax, scores in and out.
    operand, scores = 4 * 64 * 512 * 4, 4 * 64 * 64 * 4
    assert products["bytes"] == 2 * (2 * operand + scores)
    assert softmax["bytes"] == 2 * scores
    assert found["bytes"]["compulsory"] == 4 * operand


def test_the_first_call_is_not_in_it_and_what_is_no_kernel_is_outside(profile):
    code, found, told = profile("--impl", "kernel.py:attention", "--problem", "T=64,H=2,d_h=32")
    assert code == 0 and "the first call" in told
    # It sleeps for 20 ms in each call, and for 0.3 s when tried and in the first.
    assert 0.020 < found["outside_s"] < 0.1 and 0.020 < found["plain_s"] < 0.1
    assert found["call_s"] < 0.1 and adds_up(found)
    assert sum(kernel["time_s"] for kernel in found["kernels"]) < found["outside_s"]


def test_copies_are_counted_with_their_bytes(profile):
    code, found, _ = profile("--impl", "kernel.py:copying", "--problem", "T=256,H=16,d_h=64")
    copies = rows(found)["aten::copy_"]
    assert code == 0 and (copies["what"], copies["calls"]) == ("copy", 3)
    assert copies["bytes"] == 3 * 2 * (256 * 16 * 64 * 4)


def test_a_copy_to_memory_that_is_new_each_time_is_page_faults(profile):
    code, found, _ = profile("--impl", "kernel.py:faulting", "--problem", "T=256,H=16,d_h=64")
    copy = rows(found)["aten::copy_"]
    assert code == 0 and copy["what"] == "page faults (copy)"
    pages = 256 * 16 * 64 * 4 / 4096
    assert copy["new_bytes"] == pytest.approx(4096 * pages, rel=0.1)
    assert found["page_faults"] >= 0.9 * pages


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["sdpa_flash", "T=128,H=2,d_h=32", "backward"], "attention kernel"),
        (["naive", "T=64,H=2,d_h=32", "forward_backward"], "GEMM"),
        (["sdpa_math", "T_q=1,T_kv=512,H=8,H_kv=2,d_h=32"], "GEMM"),
        (["naive", "layer", "T=128", "full", "d_model=512", "projections", "forward"], "GEMM"),
    ],
)
def test_every_pass_decoding_and_a_part_of_a_layer_are_profiled(profile, words, what):
    code, found, _ = profile(*words)
    assert code == 0 and found["check"]["ok"] and adds_up(found)
    assert what in {kernel["what"] for kernel in found["kernels"]}
    assert "other" not in {k["what"] for k in found["kernels"] if k["share"] > 0.01}


def test_the_trace_has_each_profiled_call_and_its_kernels(profile):
    _, found, _ = profile("naive", "T=64,H=2,d_h=32")
    with gzip.open(found["trace"], "rt") as file:
        events = json.load(file)["traceEvents"]
    names = [event.get("name") for event in events]
    # A user's region is there once on the host's line.
    assert names.count("attnbench: one call") == found["calls"]
    assert names.count("aten::bmm") == 2 * found["calls"]


def test_a_wrong_result_ends_with_1_and_is_profiled_all_the_same(profile):
    code, found, _ = profile("--impl", "kernel.py:wrong", "--problem", "T=64,H=2,d_h=32")
    assert code == 1 and not found["check"]["ok"] and found["check"]["reasons"]
    assert {kernel["what"] for kernel in found["kernels"]} == {"elementwise"}


def test_the_table_fits_into_80_columns_and_says_what_was_not_measured(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(allocator, "make_steady", lambda: "as it is")
    asked = ["profile", "naive", "T=64,H=2,d_h=32,causal", "--device", "cpu"]
    assert main([*asked, "--out", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines if "trace.json" not in line) <= 80
    text = "\n".join(lines)
    assert "DRAM: not measured: " in text and "proton: not used: no GPU." in text
    head = next(n for n, line in enumerate(lines) if line.startswith("kernel "))
    shares = [float(line.split()[-2]) for line in lines[head + 1 : lines.index("", head)]]
    assert shares[-1] == 100.0
    assert sum(shares[:-1]) == pytest.approx(100, abs=0.05 * len(shares) + 1)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "name a cell, as in"),
        (["naiv", "T=1024"], 'for "naiv" did you mean "naive"?'),
        (["naive", "T=1023"], 'for "T=1023" did you mean "T='),
        (["naive", "T=64,H=8,H_kv=3,d_h=16"], "H=8 is not a multiple of H_kv=3"),
        (["--impl", "flexx", "--problem", "T=64,H=2,d_h=16"], 'did you mean "flex"?'),
        (["--problem", "T=64,H=2,d_h=16"], "add --impl NAME"),
        (["naive", "sequence_length"], "add a word, or take an id"),
        (["linear_chunked", "lineage", "T=512"], "2 cells have"),
        (["naive", "T=64,H=2,d_h=16", "--threads", "0"], "give 1 or more"),
        (["naive", "T=0,H=2,d_h=16"], "an empty problem"),
        (["naive", "T=64", "--run", "none"], 'no run called "none"'),
    ],
)
def test_what_is_no_cell_ends_with_2_and_names_near_ones(profile, words, told):
    code, found, complaint = profile(*words)
    assert (code, found) == (2, None) and told in complaint


def test_what_cannot_run_here_ends_with_5_and_its_reasons(profile):
    code, found, told = profile("sdpa_cudnn", "T=64,H=2,d_h=32,bfloat16")
    assert (code, found) == (5, None) and "cannot run here" in told and "cpu" in told


def test_a_cell_of_a_run_is_found_by_its_id_and_by_its_words(profile, run_directory, tmp_path):
    problem = Problem.parse("T=65,H=2,d_h=24,causal")
    entry = measured_cell("naive", problem, 0.01)
    run_directory(records=[entry, measured_cell("flex", problem, 0.02)])
    where = ["--run", "latest", "--store", str(tmp_path / "runs")]
    for words in (["naive", "T=65"], [entry["cell"][:8]]):
        code, found, told = profile(*words, *where)
        assert code == 0, told
        assert found["cell"] == entry["cell"] and found["problem"] == problem.to_json()


def test_the_help_shows_examples_and_the_exit_codes(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["profile", "--help"])
    assert stopped.value.code == 0
    told = capsys.readouterr().out
    assert told.count("  python -m suites profile") >= 2 and "exit codes: 0 profiled" in told


@pytest.mark.slow
def test_of_compiled_code_the_fused_kernel_is_told_and_no_bytes_are_made_up(profile):
    code, found, _ = profile("compiled_naive", "T=128,H=2,d_h=32")
    assert code == 0 and adds_up(found)
    assert "fused by the compiler" in {kernel["what"] for kernel in found["kernels"]}
    assert found["bytes"]["of_kernels"] is None
