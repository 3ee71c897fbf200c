"""Published numbers beside measured ones: of one device alone, and by time, not by convention."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from impls.interface.problem import Problem
from reports.__main__ import main
from reports.figures import roofline
from reports.reference import FILE, AcrossDevices, devices, published_rows, references
from results.store import load_run
from tests.drawn_run import drawn, rendered, texts
from tests.fake_run import cell, write_run

H100 = "NVIDIA H100 80GB HBM3"
P = Problem.parse("B=4,T=4096,H=16,d_h=128,float16,causal")


def on_gpu(name: str = H100, **more):
    def change(header):
        header["device"] = "cuda"
        header["environment"] |= {"gpu_name": name, **more}
        header["ceilings"] |= {"device": "cuda", "device_name": name}
        header["ceilings"]["gemm"]["float16"] = header["ceilings"]["gemm"]["float32"]

    return change


def gpu_cell(name: str, problem: Problem, time_s: float, **changes) -> dict:
    return cell(name, problem, time_s, clock="cuda_event", cache="cold", bound=None, **changes)


def run_of(tmp_path, *records, name: str = H100, **more):
    return load_run(
        write_run(tmp_path / "runs", records=list(records), change=on_gpu(name, **more))
    )


def row_of(implementation: str, problem: Problem = P, pass_: str = "forward") -> dict[str, str]:
    """The line of the file itself."""
    with FILE.open(encoding="utf-8", newline="") as file:
        return next(
            row
            for row in csv.DictReader(file)
            if (row["gpu"], row["implementation"], row["pass"]) == (H100, implementation, pass_)
            and (int(row["T"]), int(row["d_h"])) == (problem.T_q, problem.d_h)
            and row["causal"] == str(int(problem.causal))
        )


def test_every_row_has_a_source_and_says_how_it_was_read():
    rows = published_rows()
    assert len(rows) > 250 and len(devices()) >= 4
    for row in rows:
        assert len(row.source) > 20 and row.read_from in ("plot", "text", "csv")
        assert row.convention in ("fa", "exact") and 1e12 < row.flop_per_s < 2e15


def test_they_are_compared_by_time_whoever_counts_half_the_square(tmp_path):
    """FA's convention: a causal forward of B·H heads is 4·T²·d_h/2 FLOP each."""
    published = float(row_of("flash_attention_2")["tflops"])
    time_s = 2 * 4 * 16 * 4096**2 * 128 / (published * 1e12)
    run = run_of(tmp_path, gpu_cell("sdpa_flash", P, time_s / 1.1))
    (found,) = [one for one in references(run) if one.cell]
    assert found.times == pytest.approx(1.1) and found.is_within is True
    assert any("causal FLOP by half" in word for word in found.differences)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_a_version_of_flash_attn_stands_beside_what_was_published_of_it(tmp_path, n):
    name = f"flash_attention_{n}"
    row = next(r for r in published_rows() if (r.implementation, r.pass_) == (name, "forward"))
    cells = [gpu_cell(f"flash_attn_{m}", row.problem, row.time_s / 1.05) for m in (2, 3, 4)]
    found = references(run_of(tmp_path, *cells, name=row.gpu))
    (mine,) = [one for one in found if one.published == row]
    assert mine.cell is not None and mine.cell.implementation == f"flash_attn_{n}"
    assert mine.times == pytest.approx(1.05)


@pytest.mark.parametrize(("times", "is_within"), [(0.84, False), (0.86, True), (1.16, False)])
def test_agreement_ends_at_fifteen_per_cent_on_either_side(tmp_path, times, is_within):
    row = next(r for r in published_rows() if r.gpu == H100 and r.implementation == "cudnn")
    run = run_of(tmp_path, gpu_cell("sdpa_cudnn", row.problem, row.time_s / times))
    found = [one for one in references(run) if one.published == row]
    assert [one.is_within for one in found] == [is_within]


@pytest.mark.parametrize("name", ["NVIDIA H100 PCIe", "NVIDIA H100 80GB HBM3 MIG 1g", "Fake CPU"])
def test_another_device_is_no_reference(tmp_path, name):
    run = run_of(tmp_path, gpu_cell("sdpa_flash", P, 1e-3), name=name)
    with pytest.raises(AcrossDevices, match=name):
        references(run)


def test_a_part_of_the_device_is_another_device(tmp_path):
    run = run_of(tmp_path, gpu_cell("sdpa_flash", P, 1e-3), gpu_is_mig=True)
    with pytest.raises(AcrossDevices, match="MIG"):
        references(run)


def test_flagged_rows_and_other_problems_are_set_beside_nothing(tmp_path):
    run = run_of(
        tmp_path,
        gpu_cell("sdpa_flash", P, 1e-3, flags=["throttled"]),
        gpu_cell("sdpa_flash", P.with_(dtype="bfloat16"), 1e-3),
        gpu_cell("sdpa_flash", P.with_(B=5), 1e-3),
    )
    found = references(run)
    assert found and all(one.cell is None and one.times is None for one in found)
    (flash,) = (one for one in found if one.published.implementation == "flash_attention_2")
    assert flash.differences[0] == "sdpa_flash: throttled"


def test_the_command_tells_refuses_and_returns(tmp_path, capsys):
    write_run(tmp_path / "cpu", records=[cell("naive", Problem.parse("T=512,H=8,d_h=64"), 0.01)])
    assert main(["reference", "latest", "--store", str(tmp_path / "cpu")]) == 4
    assert "another device's are no reference" in capsys.readouterr().err
    run_of(tmp_path, gpu_cell("sdpa_flash", P, 1e-3), gpu_cell("naive", P, 9e-3))
    store = ["--store", str(tmp_path / "runs")]
    assert main(["reference", "latest", *store]) == 0
    said = capsys.readouterr().out
    assert "compared rows agree to ±15%" in said and "Source: FlashAttention-3" in said
    assert "All rows: " in said and "clocks and power are not known" in said
    assert main(["reference", "latest", "--json", *store]) == 0
    records = json.loads(capsys.readouterr().out)
    assert {r["device"] for r in records} == {H100} and all(r["source"] for r in records)
    assert any(r["times_published"] is None for r in records)


def test_the_roofline_has_them_hollow_where_all_matches(tmp_path):
    run = run_of(
        tmp_path, gpu_cell("sdpa_flash", P, 1e-3), gpu_cell("sdpa_flash", P.with_(B=5), 1e-3)
    )
    rows = [r for r in published_rows() if (r.gpu, r.problem, r.pass_) == (H100, P, "forward")]
    figure = drawn(roofline, run)
    marks = [line for axes in figure.axes for line in axes.lines if line.get_gid() == "published"]
    assert len(marks) == len(rows) > 2 and all(m.get_markerfacecolor() == "none" for m in marks)
    exact = 2 * 4 * 16 * (4096 * 4097 // 2) * 256
    assert {float(np.asarray(m.get_ydata())[0]) for m in marks} == {
        exact / row.time_s for row in rows
    }
    assert any("not measured" in text and "FlashAttention-3" in text for text in texts(figure))
    elsewhere = run_of(tmp_path / "b", gpu_cell("sdpa_flash", P, 1e-3), name="NVIDIA H100 PCIe")
    assert "published" not in rendered(roofline, elsewhere).svg
