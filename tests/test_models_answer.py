"""What is said of the models of the table: every label is read back, and only sound cells count."""

from __future__ import annotations

import pytest

from impls.interface.problem import Problem
from results.answers.models import answer
from results.model_label import ModelLabel, read_label
from results.store import load_run
from tests.fake_cells import cell

PROBLEM = Problem(B=1, T_q=128, T_kv=128, H=8, d_h=64, causal=True)


@pytest.fixture
def run_of(run_directory):
    return lambda *records: load_run(run_directory(records=list(records)))


def measured(label, percent, name="flash", **changes):
    """A cell that reaches so many per cent of its bound."""
    found = cell(name, PROBLEM, 1.0, suite="models", series=label)
    time_s = 100 * found["bound"]["time_s"] / percent
    return cell(name, PROBLEM, time_s, suite="models", series=label, **changes)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("bert-base MHA, prefill core, T 512", ("bert-base", "MHA", "prefill", "core", 512, 512)),
        (
            "gemma-2-9b GQA-8 window 4096, decode layer, T 64 of 8192",
            ("gemma-2-9b", "GQA-8 window 4096", "decode", "layer", 64, 8192),
        ),
        ("T, full", None),
        ("bert-base MHA, prefill core", None),
        ("bert-base MHA, prefill core, T 512 of 2k", None),
    ],
)
def test_a_label_is_read_back_or_is_none(text, label):
    assert read_label(text) == (label and ModelLabel(*label))


def test_the_range_over_the_models_is_told_with_its_ends(run_of):
    run = run_of(
        *(measured(f"m{n} MHA, prefill layer, T 64 of 128", n) for n in (40, 50, 90)),
        measured("m40 MHA, prefill core, T 128", 5),
        measured("m40 MHA, decode layer, T 128", 97),
    )
    found = answer(run)
    assert found is not None and found.sentence == (
        "Of its bound the whole layer of a published model reaches 40 % (m40 MHA) to 90 % (m90 "
        "MHA) in prefill, median 50 % of 3; 97 % in decode (m40 MHA)."
    )
    assert len(found.cells) == 4


def test_the_fastest_of_a_model_counts_and_cells_in_doubt_do_not(run_of):
    label, other = "a MHA, prefill layer, T 8", "b MQA, prefill layer, T 8"
    doubtful = measured(label, 99, "ghost", flags=["above_ceiling"])
    run = run_of(measured(label, 30), measured(label, 60, "other"), doubtful, measured(other, 50))
    found = answer(run)
    assert found is not None and "50 % (b MQA) to 60 % (a MHA)" in found.sentence


def test_without_a_layer_the_cores_are_told(run_of):
    found = answer(run_of(measured("a MHA, decode core, T 8", 44)))
    assert found is not None and found.sentence == (
        "Of its bound the core of a published model reaches 44 % in decode (a MHA)."
    )


def test_other_sweeps_and_unknown_labels_are_no_models(run_of):
    strange = measured("a MHA, training, T 8", 44)
    elsewhere = measured("a MHA, decode core, T 8", 44) | {"suite": "heads"}
    assert answer(run_of(strange, elsewhere)) is None
