"""Ceilings: the bound they give, how they are kept, and when they are not."""

import itertools
import json
from types import SimpleNamespace

import pytest
import torch

from impls.interface.problem import Problem
from suites.measure import (
    bandwidth_ceiling,
    ceilings,
    gemm_ceiling,
    host_load,
    processor,
    windows,
)
from suites.measure.ceilings import bound, ceilings_for, is_above_ceiling, measure_ceilings
from suites.measure.windows import Rate, Work, by_provider, measure_rates

ROOFS = {
    "gemm": {"float32": {"flop_per_s": 100e9, "provider": "mkldnn linear"}},
    "bandwidth": {
        "l2": {"bytes_per_s": 200e9, "provider": "copy", "capacity_bytes": 1000},
        "llc": {"bytes_per_s": 50e9, "provider": "read", "capacity_bytes": 10_000},
        "dram": {"bytes_per_s": 10e9, "provider": "copy", "capacity_bytes": None},
    },
}
SPACED = {
    "gemm": {
        "bfloat16": {"flop_per_s": 700e12, "spaced_flop_per_s": 800e12, "provider": "torch.mm"}
    },
    "bandwidth": {
        "l2": {
            "bytes_per_s": 5e12,
            "spaced_bytes_per_s": 6e12,
            "provider": "copy",
            "capacity_bytes": 50_000_000,
        },
        "hbm": {
            "bytes_per_s": 4e12,
            "spaced_bytes_per_s": 4.2e12,
            "provider": "read",
            "capacity_bytes": None,
        },
    },
}
PROBLEM = Problem.parse("T=63,H=2,d_h=40")


def test_a_cell_with_much_flop_is_bound_by_compute():
    # 1e6 / 100e9 = 10 µs of products; 100 / 200e9 = 0.5 ns of bytes.
    found = bound({"flop": 10**6, "compulsory_bytes": 100}, PROBLEM, "hot", ROOFS)
    assert found == {
        "time_s": pytest.approx(1e-5),
        "binds": "compute",
        "flop_per_s": 100e9,
        "flop_provider": "mkldnn linear",
        "bytes_per_s": 200e9,
        "bytes_level": "l2",
        "bytes_provider": "copy",
    }


@pytest.mark.parametrize(
    ("n_bytes", "cache", "level", "time_s"),
    [
        (1000, "hot", "l2", 1000 / 200e9),
        (1001, "hot", "llc", 1001 / 50e9),
        (10_001, "hot", "dram", 10_001 / 10e9),
        (1000, "cold", "dram", 1000 / 10e9),
    ],
)
def test_bytes_are_held_against_the_first_level_that_holds_them(n_bytes, cache, level, time_s):
    found = bound({"flop": 1, "compulsory_bytes": n_bytes}, PROBLEM, cache, ROOFS)
    assert found is not None
    assert (found["bytes_level"], found["binds"]) == (level, "memory")
    assert found["time_s"] == pytest.approx(time_s)


def test_a_gpu_is_bound_by_its_spaced_ceilings():
    problem = PROBLEM.with_(dtype="bfloat16")
    counts = {"flop": 8 * 10**12, "compulsory_bytes": 10**6}
    cold, graph, hot = (bound(counts, problem, cache, SPACED) for cache in ("cold", "graph", "hot"))
    assert cold == graph
    assert cold is not None
    assert hot is not None
    assert (cold["time_s"], cold["bytes_level"]) == (pytest.approx(0.01), "hbm")
    assert (hot["bytes_per_s"], hot["bytes_level"]) == (6e12, "l2")


def test_a_dtype_without_a_ceiling_has_no_bound():
    counts = {"flop": 10, "compulsory_bytes": 10}
    assert bound(counts, PROBLEM.with_(dtype="float16"), "hot", ROOFS) is None


def test_nothing_to_do_has_no_bound():
    assert bound({"flop": 0, "compulsory_bytes": 0}, PROBLEM, "hot", ROOFS) is None


def test_three_percent_under_the_bound_is_allowed():
    assert not is_above_ceiling(1.0, {"time_s": 1.03})
    assert is_above_ceiling(1.0, {"time_s": 1.031})
    assert not is_above_ceiling(1.0, None)


def fake_rates(works, clock, progress=None):
    """Every work measured at once, 1e9 a second; progress told as the real one does."""
    if progress is not None:
        progress("pass 1")
    return [Rate(work, [1e9, 0.9e9, 0.8e9]) for work in works]


@pytest.fixture
def fake(monkeypatch):
    """A machine whose rates are known, and whose foreign load is `fake.load`."""
    fake = SimpleNamespace(load=0.01, measured=0)

    def rates(works, clock, progress=None):
        fake.measured += 1
        return fake_rates(works, clock, progress)

    def between(before, after, calls=None):
        return host_load.HostLoad(None, None, 0, fake.load)

    monkeypatch.setattr(processor, "l2_bytes", lambda: 1 << 20)
    monkeypatch.setattr(processor, "llc_bytes", lambda: 8 << 20)
    monkeypatch.setattr(bandwidth_ceiling, "_LEAST_DRAM_BYTES", 1 << 20)
    monkeypatch.setattr(windows, "measure_rates", rates)
    monkeypatch.setattr(host_load, "between", between)
    return fake


def test_the_record_has_the_fields_of_the_schema(fake):
    record = measure_ceilings("cpu", 1)
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert {"device", "device_name", "threads", "measured_utc", "contended", "clock"} <= set(record)
    gemm = record["gemm"]["float32"]
    assert gemm["flop_per_s"] == 1e9
    assert gemm["median_flop_per_s"] == 0.9e9
    assert gemm["provider"] in gemm["providers"]
    assert {"torch.mm", "numpy"} <= set(gemm["providers"])
    assert set(record["bandwidth"]) == {"l2", "llc", "dram"}
    assert record["bandwidth"]["dram"]["capacity_bytes"] is None
    assert record["exp"]["float32"]["exp_per_s"] == 1e9
    assert record["datasheet"] is None


def test_ceilings_are_kept_and_read_again(fake, tmp_path):
    first = ceilings_for("cpu", 1, store=tmp_path)
    assert ceilings_for("cpu", 1, store=tmp_path) == first
    assert fake.measured == 1
    ceilings_for("cpu", 1, store=tmp_path, fresh=True)
    assert fake.measured == 2


def test_other_threads_and_another_torch_have_ceilings_of_their_own(fake, tmp_path, monkeypatch):
    ceilings_for("cpu", 1, store=tmp_path)
    ceilings_for("cpu", 2, store=tmp_path)
    monkeypatch.setattr(ceilings, "version_of", lambda name: "99.0")
    ceilings_for("cpu", 1, store=tmp_path)
    assert fake.measured == 3
    assert len(list(tmp_path.iterdir())) == 3


def test_contended_ceilings_are_returned_and_not_kept(fake, tmp_path):
    fake.load = 0.06
    record = ceilings_for("cpu", 1, store=tmp_path)
    assert record["contended"]
    assert record["foreign_load"] == 0.06
    assert list(tmp_path.iterdir()) == []


def test_contended_ceilings_are_kept_marked_where_that_is_asked_for(fake, tmp_path):
    fake.load = 0.06
    record = ceilings_for("cpu", 1, store=tmp_path, keep_contended=True)
    assert record["contended"] and ceilings_for("cpu", 1, store=tmp_path) == record
    assert fake.measured == 1


@pytest.mark.parametrize(
    "spoiled",
    [
        lambda record: json.dumps(record | {"measured_utc": "2020-01-01T00:00:00Z"}),
        lambda record: json.dumps(record | {"measured_utc": "2999-01-01T00:00:00Z"}),
        lambda record: json.dumps(record | {"procedure": 0}),
        lambda record: json.dumps(record)[:50],
        lambda record: "[]",
    ],
    ids=["old", "from the future", "another procedure", "broken", "no record"],
)
def test_a_kept_file_that_does_not_hold_is_measured_anew(fake, tmp_path, spoiled):
    record = ceilings_for("cpu", 1, store=tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_text(spoiled(record))
    ceilings_for("cpu", 1, store=tmp_path)
    assert fake.measured == 2


def test_the_thread_count_is_put_back(fake):
    before = torch.get_num_threads()
    measure_ceilings("cpu", before + 1)
    assert torch.get_num_threads() == before


def test_the_thread_count_is_put_back_after_an_error(fake, monkeypatch):
    def fail(*_):
        raise RuntimeError("planted")

    before = torch.get_num_threads()
    monkeypatch.setattr(windows, "measure_rates", fail)
    with pytest.raises(RuntimeError, match="planted"):
        measure_ceilings("cpu", before + 1)
    assert torch.get_num_threads() == before


def test_the_best_provider_is_the_ceiling_and_all_are_named():
    def work(provider, size):
        return Work("gemm float32", provider, lambda: None, 1.0, size)

    rates = [
        Rate(work("torch.mm", 512), [105.0, 107.0, 104.0]),
        Rate(work("mkldnn linear", 512), [230.0, 1.0, 229.0]),
        Rate(work("mkldnn linear", 1024), [236.0, 235.0, 2.0]),
        *(Rate(Work("gemm bfloat16", "torch.mm", lambda: None, 1.0, 512), [470.0]),),
    ]
    record = gemm_ceiling.records(rates)["float32"]
    assert record["provider"] == "mkldnn linear"
    assert (record["flop_per_s"], record["median_flop_per_s"], record["size"]) == (236, 235, 1024)
    assert record["providers"] == {
        "mkldnn linear": {"flop_per_s": 236, "median_flop_per_s": 235},
        "torch.mm": {"flop_per_s": 107, "median_flop_per_s": 105},
    }
    assert list(by_provider(rates, "gemm float32")) == ["mkldnn linear", "torch.mm"]


def test_float16_has_a_ceiling_only_where_the_cpu_computes_in_it(monkeypatch):
    monkeypatch.setattr(processor, "instruction_sets", lambda: "x86_64 avx2 avx512f")
    assert "float16" not in gemm_ceiling.dtypes()
    monkeypatch.setattr(processor, "instruction_sets", lambda: "x86_64 avx512_fp16")
    assert "float16" in gemm_ceiling.dtypes()


def test_numpy_is_no_rival_at_a_part_of_the_cpus(monkeypatch):
    """Its BLAS takes all of them, so a wall at two of eight threads would compare unlike work."""
    monkeypatch.setattr(processor, "cpu_count", lambda: 8)
    providers = {n: {w.provider for w in gemm_ceiling.works(n)} for n in (1, 2, 8)}
    assert ["numpy" in providers[n] for n in (1, 2, 8)] == [True, False, True]


def test_working_sets_come_from_the_real_caches(monkeypatch):
    monkeypatch.setattr(processor, "l2_bytes", lambda: 2 << 20)
    monkeypatch.setattr(processor, "llc_bytes", lambda: 64 << 20)
    found = {level.name: level for level in bandwidth_ceiling.levels(threads=2)}
    assert found["l2"].capacity_bytes == 4 << 20
    assert found["l2"].working_set_bytes == 1 << 20
    assert 4 << 20 < found["llc"].working_set_bytes < 64 << 20
    assert found["dram"].working_set_bytes >= 4 * (64 << 20)


def test_all_works_take_turns_and_hopeless_ones_drop_out(monkeypatch):
    monkeypatch.setattr(windows, "WINDOW_S", 1.0)
    now, order = [0.0], []

    def work(name, call_s):
        def call():
            order.append(name)
            now[0] += call_s

        return Work("group", name, call, 1.0, 1)

    rates = measure_rates([work("fast", 0.1), work("slow", 0.5)], lambda: now[0])
    turns = [name for name, _ in itertools.groupby(order)]
    assert turns[-5:] == ["fast", "slow", "fast", "slow", "fast"]
    assert [len(rate.rates) for rate in rates] == [windows.PASSES, 2]
    assert [rate.best for rate in rates] == pytest.approx([10.0, 2.0])


def test_one_slow_window_does_not_decide():
    rate = Rate(Work("g", "p", lambda: None, 1.0, 1), [100.0, 3.0, 99.0])
    assert (rate.best, rate.median) == (100.0, 99.0)
