"""The cache level of the roofline: what tiles bring from the cache, recorded, drawn and told."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import numpy as np
import pytest

from impls.interface.cost import cost
from impls.interface.problem import Problem
from impls.interface.registry import implementations
from impls.triton_flash.blocks import INTERPRETED
from impls.triton_flash.traffic import cache_bytes
from reports.explain import explained
from reports.figures import roofline
from reports.points_file import points_csv
from results.store import load_run
from tests.drawn_run import drawn, texts
from tests.fake_cells import cell, counts_record
from tests.measured_layers import measured, part

P = Problem(B=1, T_q=512, T_kv=512, H=8, d_h=64)


@pytest.mark.parametrize(
    "sizes",
    [
        {"T_q": 200, "T_kv": 333},
        {"T_q": 200, "T_kv": 333, "causal": True},
        {"T_q": 333, "T_kv": 200, "causal": True},
        {"T_q": 333, "T_kv": 333, "causal": True, "window": 41},
        {"T_q": 1, "T_kv": 70, "causal": True, "window": 3},
    ],
)
def test_a_block_of_queries_reads_the_keys_that_one_of_them_sees(sizes):
    """From the mask itself: the keys between a block's first, at a tile's start, and its last."""
    p = Problem(B=2, H=6, H_kv=2, d_h=16, d_v=24, dtype="bfloat16", **sizes)
    i, j = np.arange(p.T_q)[:, None], np.arange(p.T_kv)[None, :]
    seen = np.ones((p.T_q, p.T_kv), bool)
    if p.causal:
        last = i + p.T_kv - p.T_q
        seen = (j <= last) & (j > last - (p.window or p.T_kv + p.T_q))
    keys = 0
    for first in range(0, p.T_q, INTERPRETED.BLOCK_Q):
        columns = np.flatnonzero(seen[first : first + INTERPRETED.BLOCK_Q].any(0))
        if columns.size and p.causal:
            start = columns[0] // INTERPRETED.BLOCK_KV * INTERPRETED.BLOCK_KV if p.window else 0
            keys += columns[-1] + 1 - start
        elif columns.size:
            keys += p.T_kv
    q_and_out, k_and_v, lse = p.T_q * (16 + 24) * 2, keys * (16 + 24) * 2, p.T_q * 4
    assert cache_bytes(p, "forward") == 2 * 6 * (q_and_out + k_and_v + lse)
    assert cache_bytes(p, "backward") is None


def test_the_intensity_to_the_cache_is_the_block_s_and_not_the_length_s():
    """2·BLOCK_Q FLOP for each byte of bf16's two, while that to the memory is T / 2."""
    for T in (8192, 32768):
        p = P.with_(T_q=T, T_kv=T, dtype="bfloat16")
        brought = cache_bytes(p, "forward")
        assert brought is not None
        intensity = cost(p, "forward").flop / brought
        assert intensity == pytest.approx(2 * INTERPRETED.BLOCK_Q / 2, rel=0.03)


def test_what_an_implementation_declares_is_recorded_of_attention_alone():
    naive = implementations()["naive"]
    assert measured(Problem(1, 4, 4, 1, 8), naive)["counts"]["cache_bytes"] is None
    tiled = replace(naive, cache_bytes=lambda problem, pass_: 1000 * problem.T_q)
    assert measured(Problem(1, 4, 4, 1, 8), tiled)["counts"]["cache_bytes"] == 4000
    assert measured(part("layer"), tiled)["counts"]["cache_bytes"] is None


@pytest.fixture
def run(run_directory):
    counts = counts_record(P, "forward")
    known = counts | {"cache_bytes": counts["flop"] // 32}
    records = [cell("naive", P, 0.01), cell("tiled", P, 0.008, counts=known)]
    return load_run(run_directory(records=records))


def test_each_level_has_a_mark_of_its_own_at_the_same_height(run):
    figure = drawn(roofline, run)
    strokes = [
        line for line in figure.axes[0].lines if str(line.get_gid()).startswith("cache-of-tiled")
    ]
    assert [np.asarray(line.get_xdata()).tolist() for line in strokes] == [[32.0]]
    assert np.asarray(strokes[0].get_ydata())[0] == cost(P, "forward").flop / 0.008
    assert not any("of-naive" in str(x.get_gid()) and "cache" in str(x.get_gid())
                   for x in figure.axes[0].lines)  # fmt: skip
    assert figure.axes[0].get_xlim()[0] < 32 and "Upright strokes" in " ".join(texts(figure))


def test_each_level_is_told_in_words_and_in_the_csv(run):
    tiled = next(c for c in run.cells if c.implementation == "tiled")
    said = " ".join(words for _, words in explained(run, tiled))
    assert "from the cache by the blocks it is cut in: 32 FLOP for each" in said
    rows = {row["implementation"]: row for row in csv.DictReader(io.StringIO(points_csv(run)))}
    assert float(rows["tiled"]["cache_intensity"]) == 32.0
    assert rows["naive"]["cache_bytes"] == rows["naive"]["cache_intensity"] == ""
