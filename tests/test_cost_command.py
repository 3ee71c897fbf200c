"""`python -m impls cost` of models: the card, and what does not go together."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from impls.__main__ import main
from impls.interface import device_rates
from impls.interface.device_rates import DeviceRates
from impls.layer.models import models

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


@pytest.mark.parametrize(
    "name, cache, gibibytes",
    [
        ("llama-2-70b", "1.342 GB", "1.250 GiB"),
        ("llama-2-7b", "2.147 GB", "2.000 GiB"),
        ("deepseek-v2", "0.283 GB", "0.264 GiB"),
        ("mistral-7b", "0.537 GB", "0.500 GiB"),
    ],
)
def test_a_card_says_the_cache_in_both_units(cost, name, cache, gibibytes):
    shown = cost("--model", name, "--T", "4096", "--dtype", "float16")
    assert f"KV cache of a sequence {cache} {gibibytes}" in words(shown)
    assert models()[name].url in shown


def test_a_card_has_what_serving_a_model_asks(cost):
    shown = words(cost("--model", "llama-2-70b", "--T", "4k", *H200, "--weights-gb", "138"))
    for told in (
        "llama-2-70b: GQA-8, L 80, d_model 8192, H 64, H_kv 8, d_h 128",
        "parameters, no biases 150,994,944 12,079,595,520",
        "FLOP a token, prefill 369,115,136 29.53 G",
        "FLOP a token, decode 436,207,616 34.90 G",
        "core = projections at T: prefill 18,431, decode 9,216",
        "as MHA 10.737 GB 10.000 GiB 8.00 times as much",
        "decode bound on h200-sxm, 4,800 GB/s",
        "attention alone 5.31 24.16 1.342 188 memory",
        "whole model 29.0 138.0 1.342 34.4 memory",
        "2 sequences 29.3 138.0 2.684 68.2 memory",
        "141.000 GB less 138.000 GB of the model's weights leave 3.000 GB: 2 sequences of",
    ):
        assert told in shown, told


def test_no_room_beside_the_weights_is_said_as_none(cost):
    shown = words(cost("--model", "llama-2-70b", "--T", "4096", *H200, "--weights-gb", "140"))
    assert "leave 1.000 GB: 0 sequences of T = 4096 fit" in shown
    record = json.loads(cost("--model", "llama-2-70b", *H200, "--weights-gb", "150", "--json"))
    assert record["serving"]["sequences"] == 0
    assert record["serving"]["full"] is None


def test_every_model_has_a_card_of_80_columns_and_json(cost):
    for name in models():
        shown = cost("--model", name, *H200)
        long = [line for line in shown.splitlines() if len(line) > 80 and "https://" not in line]
        assert (
            not long
            and "…" not in shown
            and shown == "\n".join(line.rstrip() for line in shown.split("\n"))
        ), name
        record = json.loads(cost("--model", name, *H200, "--json"))
        assert record["model"]["name"] == name
        assert record["T"] == models()[name].typical_T


def test_the_json_of_a_card_is_exact(cost):
    record = json.loads(cost("--model", "llama-2-70b", "--T", "4096", *H200, "--json"))
    assert record["all_layers"]["weights"] == 12_079_595_520
    assert record["cache_bytes"] == 1_342_177_280
    assert record["mha_cache_bytes"] == 10_737_418_240
    assert record["mha_ratio"] == 8
    # 4096·4097/2 pairs, 64 heads, two products of 128, 80 layers, 2 FLOP each.
    core = 80 * 64 * 2 * 2 * 128 * (4096 * 4097 // 2)
    assert record["all_layers"]["prefill"]["core_flop"] == core
    assert record["serving"]["attention"]["cache_bytes"] == record["cache_bytes"]
    assert record["serving"]["whole"] is None


def test_windowed_layers_have_a_column_of_their_own(cost):
    shown = words(cost("--model", "gemma-2-9b", "--T", "16k"))
    assert "21 full, each 21 windowed, each all 42" in shown
    assert "if all T were kept 5.637 GB" in shown
    assert "core = projections at T: prefill never (the window)" in words(
        cost("--model", "mistral-7b")
    )


def test_free_sizes_and_a_file_are_counted_like_a_name(cost, tmp_path):
    named = json.loads(cost("--model", "llama-2-70b", "--T", "4k", "--json"))
    free = ("--d_model", "8192", "--H", "64", "--H_kv", "8", "--L", "80")
    config = tmp_path / "config.json"
    fields = {
        **{"hidden_size": 8192, "num_attention_heads": 64, "num_key_value_heads": 8},
        **{"num_hidden_layers": 80, "torch_dtype": "float32"},
    }
    config.write_text(json.dumps(fields), encoding="utf-8")
    for given in (free, ("--config", str(config), "--dtype", "float16")):
        record = json.loads(cost(*given, "--T", "4k", "--json"))
        assert record["cache_bytes"] == named["cache_bytes"]
        assert record["all_layers"] == named["all_layers"]
    own = json.loads(cost("--config", str(config), "--json"))
    assert (own["dtype"], own["T"]) == ("float32", 4096)


def test_free_sizes_may_be_latent_or_windowed(cost):
    shown = words(cost("--d_model", "512", "--H", "8", "--d_c", "128", "--d_R", "32"))
    assert "MLA, L 1, d_model 512, H 8, d_h 64, d_c 128, d_R 32, d_v 64" in shown
    shown = words(cost("--d_model", "512", "--H", "8", "--L", "3", "--window", "64"))
    assert "window 64" in shown


def test_narrow_heads_are_warned_about_and_counted(cost):
    shown = words(cost("--d_model", "512", "--H", "64"))
    assert "note: d_h=8 is below 16" in shown
    assert "1,048,576" in shown
    assert "note: H·d_h=1024 is not d_model=512" in words(
        cost("--d_model", "512", "--H", "8", "--d_h", "128")
    )


def test_without_a_device_the_bound_is_unknown_and_says_what_to_type(cost, monkeypatch):
    shown = words(cost("--model", "llama-2-70b"))
    assert "decode bound – no bandwidth is known: give --device KEY" in shown
    measured = DeviceRates("Some CPU", 2e10, {"float32": 1e11}, None, "measured then", True)
    monkeypatch.setattr(device_rates, "measured_here", lambda: measured)
    shown = words(cost("--model", "llama-2-70b", "--T", "4k"))
    assert "decode bound on Some CPU, 20.0 GB/s (measured then)" in shown
    assert "no float16 FLOP/s are known of Some CPU" in shown
    assert "--memory-gb says how many sequences fit" in shown
    shown = words(cost("--model", "llama-2-70b", "--T", "4k", "--memory-gb", "100"))
    assert "leave 75.841 GB: 56 sequences" in shown
    assert "the model's other weights take room too: say with --weights-gb" in shown


@pytest.mark.parametrize(
    "arguments, told",
    [
        ("--model lama-2-70b", 'no model "lama-2-70b": did you mean llama-2-70b'),
        ("--model llama-2-70b --device h200", 'no device "h200": did you mean'),
        ("--model llama-2-70b --H 4", "--H: a size goes with --d_model"),
        ("--model llama-2-70b --T 1k:2k", "a card is of one T, --T 1k:2k is many: add --compare"),
        ("--model llama-2-70b --T 4q", "--T 4q is no length: write 4096, 4k or 1k:2M"),
        ("--model llama-2-70b --T 0", "--T 0 is no length"),
        ("--model llama-2-70b --weights-gb -1", "--weights-gb -1 is no size"),
        ("--model llama-2-70b --memory-gb nan", "--memory-gb nan is no size"),
        ("--model llama-2-70b --plot x", "--plot: that is of a comparison: add --compare"),
        ("--model llama-2-70b --flop-convention fa", "--flop-convention: a model's FLOP"),
        ("--problem T=8,H=2,d_h=8 --weights-gb 3", "--weights-gb: --problem is the core alone"),
        ("--problem T=8,H=2,d_h=8 --H_kv 1", "--H_kv: --problem is the core alone"),
        ("--d_model 512", "--d_model 512 alone says no heads: add --H"),
        ("--d_model 512 --H 6", "d_model=512 is not a multiple of H=6"),
        ("--d_model 512 --H 8 --H_kv 3", "H=8 is not a multiple of H_kv=3"),
        ("--d_model 512 --H 8 --d_c 4", "--d_c 4 makes the layers MLA: add --d_R"),
        ("--d_model 512 --H 8 --d_R 4", "--d_R: that is of MLA: add --d_c"),
        ("--config nowhere/config.json", "nowhere/config.json: No such file"),
        ("--compare mha,gqa7", "H=64 is not a multiple of H_kv=7"),
        ("--compare mha,xqa", '"xqa" is no variant (mha, mqa, gqa8, mla) and no model "xqa"'),
        ("--compare mha,gqa64", "--compare names MHA twice"),
        ("--compare ,", "--compare names nothing"),
        ("--compare mha --T 2k:1k", "--T 2k:1k does not rise"),
        ("--compare mha --requests 0", "--requests 0 is nothing to serve"),
        ("", "nothing to count: give --model NAME"),
    ],
)
def test_misuse_ends_2_and_says_what_would_do(capsys, arguments, told):
    assert main(["cost", *arguments.split()]) == 2
    out, err = capsys.readouterr()
    assert told in err
    assert out == ""


def test_large_counts_are_scaled_and_none_is_cut_in_its_digits(cost):
    told = cost("--problem", "T=99999999999,H=8,d_h=64")
    assert "…" not in told and max(map(len, told.splitlines())) <= 80
    rows = {line[:16].strip(): line[16:].split("  ") for line in told.splitlines()[2:]}
    assert [text.strip() for text in rows["FLOP"] if text] == ["20.48 Y", "51.20 Y", "71.68 Y"]
    assert "819,199,999,991,808" in told


def test_counting_models_needs_no_torch():
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from impls.__main__ import main\n"
        "sys.exit(main(['cost', '--model', 'llama-2-70b', '--device', 't4'])"
        " or main(['cost', '--compare', 'mha,mla', '--T', '1k'])"
        " or main(['cost', '--problem', 'T=8,H=2,d_h=8']))"
    )
    child = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True
    )
    assert child.returncode == 0, child.stderr


def test_a_full_disk_under_what_is_printed_is_no_wrong_result():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "impls", "cost", "--model", "llama-2-70b"],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, len(done.stderr.splitlines())) == (5, 1), done.stderr
    assert "No space left on device" in done.stderr
