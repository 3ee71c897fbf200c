"""`python -m impls cost --compare`: one table, its JSON, and the figures it asks reports for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from impls.__main__ import main
from impls.interface import device_rates
from impls.layer import cost_command
from impls.layer.lengths import finer, length_text, parse_lengths

ROOT = Path(__file__).resolve().parents[1]
H200 = ("--device", "h200-sxm")


@pytest.fixture(autouse=True)
def unmeasured(monkeypatch):
    """No ceilings of this machine: what is printed must not depend on it."""
    monkeypatch.setattr(device_rates, "measured_here", lambda: None)


@pytest.fixture
def cost(capsys):
    def run(*arguments):
        assert main(["cost", *arguments]) == 0
        return capsys.readouterr().out

    return run


def words(text: str) -> str:
    return " ".join(text.split())


def test_a_comparison_is_one_table_of_what_was_asked(cost):
    shown = cost("--compare", "mha,gqa8,mqa,mla", "--T", "1k:2M", *H200)
    table = words(shown)
    # 128 k tokens: 8 times 343.6 GB / 8 = 42.9 GB of GQA-8, three of which fit beside 24.2 GB.
    for told in (
        "128k MHA 268 215 387 344 80.5 0 244",
        "GQA-8 151 196 368 42.9 14.0 2 31",
        "MLA: d_c 512, d_R 64, d_v 128, d_c_q 1536, in DeepSeek-V2's proportions",
        "datasheet",
    ):
        assert told in table, told
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert sum("MQA" in line for line in shown.splitlines()) == 12


def test_a_comparison_in_json_has_every_row(cost):
    arguments = ("--compare", "mha,gqa-2,deepseek-v2", "--T", "1k:4k", "--model", "llama-3-8b")
    record = json.loads(cost(*arguments, *H200, "--weights-gb", "16", "--requests", "7", "--json"))
    names = ["MHA", "GQA-2", "deepseek-v2"]
    assert [row["variant"] for row in record["rows"]] == 3 * names
    assert [row["T"] for row in record["rows"][::3]] == [1024, 2048, 4096]
    mha = record["rows"][0]
    assert mha["cache_bytes"] == 2 * 32 * 32 * 128 * 1024 * 2
    assert mha["sequences"] == (141 - 16) * 10**9 // mha["cache_bytes"]
    assert mha["devices"] == 1
    assert mha["decode_time_s"] == pytest.approx((16e9 + mha["cache_bytes"]) / 4.8e12)
    # The figures' rates are of the attention alone: 4·4096² weights a layer, of 2 bytes.
    alone_s = (2 * 32 * 4 * 4096**2 + mha["cache_bytes"]) / 4.8e12
    assert mha["decode_tokens_per_s"] == pytest.approx(1 / alone_s)
    assert [one["name"] for one in record["variants"]] == names
    assert record["device_memory_bytes"]["h200-sxm"] == 141e9


def test_a_comparison_keeps_the_window_and_the_latent_of_its_base(cost):
    record = json.loads(cost("--model", "mistral-7b", "--compare", "mha", "--T", "8k", "--json"))
    assert record["rows"][0]["cache_bytes"] == 2 * 32 * 32 * 128 * 4096 * 2
    record = json.loads(cost("--model", "deepseek-v2", "--compare", "mla,mqa", "--json"))
    mla, mqa = (one["shape"]["layer"] for one in record["variants"])
    assert mla["latent"] == {"d_c": 512, "d_R": 64, "d_v": 128, "d_c_q": 1536}
    assert (mqa["latent"], mqa["H_kv"]) == (None, 1)


def test_lengths_are_read_as_people_write_them():
    assert parse_lengths("1k:2M") == [2**n for n in range(10, 22)]
    assert parse_lengths("100:1000") == [100, 200, 400, 800, 1000]
    assert parse_lengths("3K") == [3072]
    assert [length_text(T) for T in (100, 1024, 3 * 2**20, 131_072)] == ["100", "1k", "3M", "128k"]
    rungs = finer([1024, 2048, 4096])
    assert set(rungs) >= {1024, 2048, 4096} and len(rungs) == 9
    assert rungs == sorted(rungs)


def test_plot_hands_the_finer_ladder_to_reports(cost, monkeypatch, tmp_path):
    asked = []

    def run(command, **kwargs):
        asked.append((command, kwargs))
        return subprocess.CompletedProcess(command, 0, stdout="cost-cache.png\n")

    monkeypatch.setattr(cost_command.subprocess, "run", run)
    arguments = ("--compare", "mha,mqa", "--T", "1k:4k", "--plot", str(tmp_path / "figures"))
    assert cost(*arguments).endswith("cost-cache.png\n")
    [(command, kwargs)] = asked
    assert command[1:] == ["-m", "reports.cost", "-", "--out", str(tmp_path / "figures")]
    assert kwargs["cwd"] == ROOT, "reports is found from the checkout, wherever one is"
    record = json.loads(kwargs["input"])
    assert len({row["T"] for row in record["rows"]}) == 9
    json.loads(cost(*arguments, "--json"))


def test_a_plot_that_fails_ends_5(capfd, monkeypatch, tmp_path):
    def run(command, **_):
        return subprocess.CompletedProcess(command, 2, stdout="")

    monkeypatch.setattr(cost_command.subprocess, "run", run)
    assert main(["cost", "--compare", "mha", "--plot", str(tmp_path)]) == 5


@pytest.mark.slow
def test_plot_writes_the_figures_from_any_folder(tmp_path):
    child = subprocess.run(
        [
            *(sys.executable, "-m", "impls", "cost", "--compare", "mha,gqa8,mqa,mla"),
            *("--T", "1k:2M", *H200, "--plot", "figures"),
        ],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "MPLCONFIGDIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert child.returncode == 0, child.stderr
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    stems = ("cost-cache", "cost-core-share", "cost-tokens")
    assert names == {f"{stem}.{kind}" for stem in stems for kind in ("png", "svg")}
