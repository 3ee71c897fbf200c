"""What the doctor prints fits a terminal, and what is to be typed can be copied."""

from __future__ import annotations

import pytest

from suites.doctor.command import as_text
from suites.doctor.finding import ok, problem

TOLD = " ".join(3 * ["1.5 CPUs of 16 (container: docker): past its quota the process is stopped."])
TYPED = "docker run --cpuset-cpus=0-1 " + "--some-long-option=value " * 5 + "image"


@pytest.mark.parametrize("columns", [80, 50])
def test_what_was_found_fits_the_terminal_and_what_is_typed_is_one_line(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = as_text([problem("container limits", TOLD, TYPED), ok("swap", "none in use")])
    *told, typed, well, _ = shown.splitlines()
    assert typed.strip() == f"→ {TYPED}" and well.split() == ["ok", "swap:", "none", "in", "use"]
    assert max(map(len, told)) < columns and len(told) > 2
    assert all(line.startswith(" " * 9) for line in told[1:])
    assert " ".join(" ".join(told).split()) == f"PROBLEM container limits: {TOLD}"


def test_a_terminal_that_says_nothing_sensible_is_no_reason_to_fail(monkeypatch):
    monkeypatch.setenv("COLUMNS", "1")
    assert "none in use" in as_text([ok("swap", "none in use")])
