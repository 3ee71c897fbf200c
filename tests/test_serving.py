"""Bounds of serving, of devices named and measured, against the arithmetic of one example."""

from __future__ import annotations

import json

import pytest

from impls.interface import device_rates
from impls.interface.device_rates import DeviceRates, measured_here, of_datasheet
from impls.interface.devices import device_row
from impls.interface.layer_cost import cache_bytes, decode_flop, prefill_flop, weight_bytes
from impls.layer.models import model
from impls.layer.serving import decode_bound, devices_for, prefill_bound, sequences_that_fit

LLAMA = model("llama-2-70b").shape
H200 = of_datasheet("h200-sxm")
MEASURED = {
    "device": "cpu",
    "device_name": "Some CPU",
    "threads": 1,
    "measured_utc": "2026-11-29T12:00:00Z",
    "contended": False,
    "gemm": {"float32": {"flop_per_s": 1e11}},
    "bandwidth": {
        "l2": {"bytes_per_s": 9e10, "capacity_bytes": 1000},
        "dram": {"bytes_per_s": 2e10, "capacity_bytes": None},
    },
    "datasheet": None,
}


def test_decode_of_one_sequence_is_weights_and_cache_over_bandwidth():
    """12.08 G parameters of 2 bytes and 1.342 GB of cache at 4.8 TB/s: 5.31 ms."""
    found = decode_bound(LLAMA, 4096, "float16", H200)
    assert found.time_s == pytest.approx((2 * 12_079_595_520 + 1_342_177_280) / 4.8e12)
    assert (found.binds, found.tokens) == ("memory", 1)
    whole = decode_bound(LLAMA, 4096, "float16", H200, model_weight_bytes=140 * 10**9)
    assert whole.time_s == pytest.approx(141.342e9 / 4.8e12, rel=1e-5)
    assert whole.flop == found.flop


def test_more_sequences_read_the_weights_once_and_their_own_caches():
    one, many = (decode_bound(LLAMA, 4096, "float16", H200, B=B) for B in (1, 50))
    assert many.weight_bytes == one.weight_bytes
    assert many.cache_bytes == 50 * one.cache_bytes
    assert many.flop == 50 * one.flop
    assert many.tokens_per_s == pytest.approx(50 / many.time_s)


def test_compute_binds_a_latent_at_many_sequences():
    """242 FLOP a byte of cache at H = 128 is right of the ridge, 989.4 T / 4.8 T = 206."""
    latent = model("deepseek-v2").shape
    found = decode_bound(latent, 131_072, "bfloat16", H200, B=500)
    assert found.binds == "compute"
    assert found.time_s == pytest.approx(500 * decode_flop(latent, 131_072).total / 989.4e12)
    core, kept = decode_flop(latent, 4096).core, cache_bytes(latent, 4096, "bfloat16")
    assert core / kept == pytest.approx(242, abs=0.5)


def test_prefill_is_flop_over_the_dtypes_rate_or_unknown():
    found = prefill_bound(LLAMA, 8192, "float16", H200)
    assert found is not None
    assert found.time_s == pytest.approx(prefill_flop(LLAMA, 8192).total / 989.4e12)
    assert found.tokens_per_s == pytest.approx(8192 / found.time_s)
    unknown = DeviceRates("x", 1e9, {}, None, "", True)
    assert prefill_bound(LLAMA, 8192, "float16", unknown) is None
    assert decode_bound(LLAMA, 8192, "float16", unknown).binds == "memory"


def test_sequences_fit_up_to_the_last_byte_and_none_beside_too_many_weights():
    cache = cache_bytes(LLAMA, 4096, "float16")

    def fitting(memory_bytes, held_bytes):
        return sequences_that_fit(
            LLAMA, 4096, "float16", memory_bytes=memory_bytes, held_bytes=held_bytes
        )

    assert fitting(10 + 3 * cache, 10) == 3
    assert fitting(9 + 3 * cache, 10) == 2
    assert fitting(141e9, 140 * 10**9) == 0  # 1 GB is left, 1.34 GB is due
    assert fitting(100, 200) == 0


def test_devices_hold_the_weights_once_and_every_cache():
    cache = cache_bytes(LLAMA, 4096, "float16")

    def needed(requests, memory_bytes, held_bytes):
        sizes = {"memory_bytes": memory_bytes, "held_bytes": held_bytes}
        return devices_for(LLAMA, 4096, "float16", requests=requests, **sizes)

    assert needed(3, 10 + 3 * cache, 10) == 1
    assert needed(4, 10 + 3 * cache, 10) == 2
    assert needed(100, 141e9, 138 * 10**9) == 2  # (138 + 134.2) / 141


def test_a_devices_rates_are_its_datasheets():
    row = device_row("h200-sxm")
    assert (H200.bytes_per_s, H200.memory_bytes) == (row.bytes_per_s, row.memory_bytes)
    assert H200.flop_per_s["bfloat16"] == row.bf16_flop_per_s
    assert "bfloat16" not in of_datasheet("v100-32-sxm2").flop_per_s
    assert of_datasheet("H200-SXM") == H200
    with pytest.raises(ValueError, match=r'no device "h200": did you mean .*h200-sxm'):
        of_datasheet("h200")


def write(folder, name, **changes):
    (folder / name).write_text(json.dumps(MEASURED | changes), encoding="utf-8")


def test_measured_rates_are_the_newest_uncontended_of_main_memory(tmp_path):
    assert measured_here(tmp_path) is None
    write(tmp_path, "a.json", device_name="older", measured_utc="2026-11-28T12:00:00Z")
    write(tmp_path, "b.json")
    write(tmp_path, "c.json", contended=True, measured_utc="2026-11-30T12:00:00Z")
    (tmp_path / "d.json").write_text("{", encoding="utf-8")
    write(tmp_path, "e.json", gemm=None, measured_utc="2026-11-30T12:00:00Z")
    found = measured_here(tmp_path)
    assert found is not None
    assert (found.name, found.bytes_per_s) == ("Some CPU", 2e10)
    assert found.flop_per_s == {"float32": 1e11}
    assert found.memory_bytes is None
    assert found.source == "measured 2026-11-29, 1 thread, dram and matrix products"


def test_contended_rates_are_better_than_none_and_say_so(tmp_path):
    """They were never read, and the advice was to measure what is not kept."""
    write(tmp_path, "a.json", contended=True, foreign_load=0.31)
    found = measured_here(tmp_path)
    assert found is not None and found.bytes_per_s == 2e10
    assert found.source.endswith(", while other programs took 31% of the machine")


def test_a_measured_gpu_takes_spaced_rates_and_its_datasheets_memory(tmp_path):
    write(
        tmp_path,
        "gpu.json",
        device="cuda",
        device_name="NVIDIA H200",
        datasheet={"key": "h200-sxm"},
        gemm={"bfloat16": {"flop_per_s": 6e14, "spaced_flop_per_s": 7e14}},
        bandwidth={
            "hbm": {"bytes_per_s": 4e12, "spaced_bytes_per_s": 4.2e12, "capacity_bytes": None}
        },
    )
    found = measured_here(tmp_path)
    assert found is not None
    assert (found.bytes_per_s, found.flop_per_s["bfloat16"]) == (4.2e12, 7e14)
    assert found.memory_bytes == 141e9


def test_ceilings_are_looked_for_where_suites_keeps_them():
    from suites.measure.ceilings import STORE

    assert device_rates.CEILINGS == STORE


def test_attention_weights_are_two_bytes_each_in_half_precision():
    assert weight_bytes(LLAMA, "float16") == 2 * 80 * 150_994_944
