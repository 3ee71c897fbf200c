"""What is said of causal masking: a range of sizes, the fastest implementation, or nothing."""

import pytest

from impls.interface.problem import Problem
from results.causal import causal_saving
from results.store import load_run
from tests.fake_cells import cell

SHORT = Problem.parse("T=128,H=8,d_h=64")
LONG = SHORT.with_(T_q=4096, T_kv=4096)


@pytest.fixture
def run_of(run_directory):
    def read(*records, **keywords):
        return load_run(run_directory(records=list(records), **keywords))

    return read


def pairs(name, shares, **changes):
    """Full and causal cells by T; causal takes the given share of full's time."""
    records = []
    for T, share in shares.items():
        problem = SHORT.with_(T_q=T, T_kv=T)
        full_s = 1e-7 * T * T
        records.append(cell(name, problem, full_s, **changes))
        records.append(cell(name, problem.with_(causal=True), full_s * share, **changes))
    for record in records:
        record["series"] = "T"
    return records


def sentence(run):
    found = causal_saving(run)
    assert found is not None
    return found.sentence


def test_the_share_is_told_at_the_largest_T_and_up_to_where_nothing_is_saved(run_of):
    rows = pairs("sdpa_flash", {128: 1.0, 512: 0.98, 2048: 0.62, 4096: 0.56})
    assert sentence(run_of(*rows)) == (
        "Causal sdpa_flash takes 0.56 of full's time at T = 4096 (H 8, d_h 64, fp32), "
        "where 0.50 of the pairs are visible; no saving up to T = 512 (1 launch)."
    )


def test_a_saving_from_the_start_has_no_length_without_one(run_of):
    text = sentence(run_of(*pairs("naive", {128: 0.6, 4096: 0.6})))
    assert "takes 0.60 of full's time at T = 4096" in text
    assert "no saving" not in text


def test_no_saving_is_told_with_its_range(run_of):
    """It said "saves nothing" of T = 256 alone, the largest that no other program disturbed."""
    text = sentence(run_of(*pairs("naive", {128: 0.99, 256: 1.02})))
    assert "takes 1.02 of full's time at T = 256" in text
    assert "; no saving from T = 128 to T = 256 (1 launch)." in text


def test_one_size_alone_tells_nothing(run_of):
    assert causal_saving(run_of(*pairs("naive", {256: 0.98}))) is None


def test_it_is_told_of_the_fastest_in_the_sweep_of_T_and_not_of_whom_it_saves_most(run_of):
    rows = pairs("naive", {128: 0.9, 4096: 0.8}) + pairs("chunked", {128: 0.9, 4096: 0.4})
    for record in pairs("flash", {128: 0.9, 4096: 0.55}):
        record["timing"]["median_s"] *= 0.7
        rows.append(record)
    few = LONG.with_(H=2, H_kv=2)
    for T in (8192, 16384):
        sized = few.with_(T_q=T, T_kv=T)
        rows += [
            cell("flash", sized, 1e-8 * T * T, suite="heads", series="H"),
            cell("flash", sized.with_(causal=True), 2e-9 * T * T, suite="heads", series="H"),
        ]
    assert sentence(run_of(*rows)).startswith("Causal flash takes 0.55 of full's time at T = 4096")


def test_a_decode_step_is_no_size_of_the_sweep(run_of):
    rows = pairs("naive", {256: 0.6})
    decode = SHORT.with_(T_q=16, T_kv=4096)
    rows += [cell("naive", decode, 0.01), cell("naive", decode.with_(causal=True), 0.01)]
    for record in rows:
        record["series"] = "T"
    assert causal_saving(run_of(*rows)) is None


def test_the_baseline_is_not_told_of_where_a_kernel_was_brought(run_of):
    def brought(header):
        header["settings"]["brought"] = ["k.py:attention"]

    rows = pairs("naive", {128: 0.9, 4096: 0.8})
    assert causal_saving(run_of(*rows, change=brought)) is None
    rows += pairs("k_attention", {128: 1.0, 4096: 1.0})
    text = sentence(run_of(*rows, change=brought, commit="2222222"))
    assert text.startswith("Causal k_attention takes 1.00")


@pytest.mark.parametrize("doubtful", [0, 1])
def test_a_row_in_doubt_tells_nothing(run_of, doubtful):
    rows = pairs("naive", {128: 0.5, 4096: 0.5})
    rows[doubtful]["flags"] = ["contended"]
    assert causal_saving(run_of(*rows)) is None
