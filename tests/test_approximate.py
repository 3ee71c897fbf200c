"""What approximates by its own word is ok within it, flagged, and in no ratio."""

from __future__ import annotations

from dataclasses import replace

from impls.interface.problem import Problem
from impls.interface.registry import implementations
from results.reading import Place
from results.schema import read_cell
from suites.measure.samples import Settings
from suites.session.cell import look_again, measure_cell
from suites.session.record import timed_again
from suites.session.subject import SubjectMemory
from tests.fake_cells import cell
from tests.test_cell import CONDITIONS, cell_of, fake

NAIVE = implementations()["naive"]
SHORTLY = replace(CONDITIONS, settings=Settings(budget_s=0.02))


def coarse(q, k, v, **arguments):
    """Values rounded by up to 2⁻⁴ of themselves, as by float8."""
    return NAIVE.forward(q, k, (v * 16).round() / 16, **arguments)


def measured(allowed_error: float | None):
    approximate = replace(fake(coarse), allowed_error=allowed_error)
    return measure_cell(cell_of(approximate), SHORTLY, SubjectMemory())


def test_within_its_word_it_is_ok_and_flagged_and_the_check_says_what_was_allowed():
    found = measured(0.1)
    assert (found["status"], found["flags"].count("approximate")) == ("ok", 1)
    out = found["check"]["outputs"]["out"]
    assert out["relative_error"] > 100 * out["naive_max_error"]
    assert 0.1 <= out["allowed_relative"] < 0.11


def test_beyond_its_word_or_without_one_it_is_wrong():
    assert measured(1e-4)["status"] == "wrong"
    found = measured(None)
    assert (found["status"], "approximate" in found["flags"]) == ("wrong", False)


def test_another_look_keeps_the_flag_and_it_enters_no_ratio():
    approximate = replace(fake(coarse), allowed_error=0.1)
    memory = SubjectMemory()
    fields = measure_cell(cell_of(approximate), SHORTLY, memory)
    again = look_again(cell_of(approximate), fields, SHORTLY, memory)
    pooled = timed_again(fields, again["samples"])
    assert "approximate" in pooled["flags"]
    problem = Problem.parse("T=64,H=2,d_h=32")
    record = cell("coarse", problem, 1e-3, flags=["approximate"])
    assert not read_cell(record, Place("a test")).is_comparable
