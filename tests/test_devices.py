"""The datasheet table agrees with arithmetic and answers to whole names only."""

import csv
import re

import pytest

from impls.interface.devices import TABLE, datasheet, device_rows

ROWS = {row.key: row for row in device_rows()}
# One name per row as torch reports it, with its SMs and about the bytes a driver reports.
REPORTED = {
    "v100-16-sxm2": ("Tesla V100-SXM2-16GB", 80, 16_945_512_448),
    "v100-32-sxm2": ("Tesla V100-SXM2-32GB", 80, 34_089_730_048),
    "t4": ("Tesla T4", 40, 15_843_721_216),
    "a100-40-sxm": ("NVIDIA A100-SXM4-40GB", 108, 42_298_834_944),
    "a100-80-sxm": ("NVIDIA A100-SXM4-80GB", 108, 84_987_740_160),
    "a100-80-pcie": ("NVIDIA A100 80GB PCIe", 108, None),
    "a10g": ("NVIDIA A10G", 80, 23_609_475_072),
    "rtx3090": ("NVIDIA GeForce RTX 3090", 82, None),
    "rtx4090": ("NVIDIA GeForce RTX 4090", 128, None),
    "l4": ("NVIDIA L4", 58, None),
    "l40s": ("NVIDIA L40S", 142, None),
    "h100-sxm": ("NVIDIA H100 80GB HBM3", 132, 85_024_112_640),
    "h100-pcie": ("NVIDIA H100 PCIe", 114, None),
    "h200-sxm": ("NVIDIA H200", 132, 150_109_880_320),
    "b200": ("NVIDIA B200", 148, 178 * 2**30),
    "gb200": ("NVIDIA GB200", 152, None),
    "b300": ("NVIDIA B300 SXM6 AC", 148, 275_040 * 2**20),
    "gb300": ("NVIDIA GB300", 152, None),
    "rtx5090": ("NVIDIA GeForce RTX 5090", 170, None),
    "mi300x": ("AMD Instinct MI300X", 304, None),
}


@pytest.mark.parametrize("key", ROWS)
def test_sm_times_clock_times_flop_per_clock_is_the_printed_peak(key):
    row = ROWS[key]
    fp16 = row.sm_count * row.tensor_clock_hz * row.tensor_flop_per_clock
    fp32 = row.sm_count * row.sm_clock_hz * row.fp32_flop_per_clock
    assert row.fp16_flop_per_s == pytest.approx(fp16, rel=0.01)
    assert row.fp32_flop_per_s == pytest.approx(fp32, rel=0.01)


@pytest.mark.parametrize("key", ROWS)
def test_the_name_torch_reports_matches_its_row_and_no_other(key):
    name, sm_count, memory_bytes = REPORTED[key]
    matching = [row.key for row in device_rows() if re.fullmatch(row.name_pattern, name)]
    assert matching == [key]
    assert datasheet(name, sm_count, memory_bytes) is ROWS[key]


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA A10",
        "NVIDIA GeForce RTX 3090 Ti",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA H100 NVL",
        "NVIDIA H200 NVL",
        "NVIDIA L40",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "NVIDIA H100 80GB HBM3 MIG 3g.40gb",
        "NVIDIA H100",
        "NVIDIA B200 ",
        "nvidia h200",
        "AMD Instinct MI300X VF",
        "AMD EPYC 9654",
        "",
    ],
)
def test_a_similar_name_has_no_datasheet(name):
    """Case P10, ninfer-3090 PR#50: an unknown device has measured ceilings alone."""
    assert datasheet(name) is None


def test_another_sm_count_or_memory_under_a_known_name_has_no_datasheet():
    assert datasheet("NVIDIA H200", 132) is not None
    assert datasheet("NVIDIA H200", 16) is None
    assert datasheet("NVIDIA H200", 132, 18 * 10**9) is None
    assert datasheet("NVIDIA A100-SXM4-40GB", 108, 84_987_740_160) is None


def test_figures_are_dense_decimal_and_float32_is_not_tf32():
    """Public tables print sparse peaks, GB/s × 1024³, and TF32 as "fp32"."""
    h100, a10g = ROWS["h100-sxm"], ROWS["a10g"]
    assert h100.flop_per_s("float16") == pytest.approx(989.4e12)
    assert h100.bytes_per_s == 3350e9
    assert h100.flop_per_s("float32") == pytest.approx(66.9e12)
    assert a10g.flop_per_s("bfloat16") == 70e12
    assert ROWS["v100-16-sxm2"].flop_per_s("bfloat16") is None
    assert h100.flop_per_s("float64") is None


def test_exponentials_of_an_h100_are_sixteen_a_clock_and_sm():
    assert ROWS["h100-sxm"].exp_per_s == 132 * 1980e6 * 16
    assert ROWS["mi300x"].exp_per_s is None


def test_every_row_has_a_source_and_a_confidence():
    for row in device_rows():
        assert row.source and row.confidence in ("A", "B", "C"), row.key
    assert len(ROWS) == len(device_rows())


def test_every_line_of_the_table_has_as_many_fields_as_its_head():
    with TABLE.open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file, strict=True))
    assert {len(line) for line in lines} == {len(lines[0])}
