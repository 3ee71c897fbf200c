"""docs/numbers.md is true: every figure on the page is run."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "numbers.md"
TEXT = PAGE.read_text(encoding="utf-8")
FENCE = re.compile(r"```python\n(.*?)```", re.DOTALL)
# Bold sentences are what is often written; each is answered in its section.
CLAIM = re.compile(r"^\*\*", re.MULTILINE)


def test_every_line_of_the_page_does_what_it_says():
    outcome = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert outcome.failed == 0
    assert outcome.attempted == TEXT.count("\n>>> ")


def test_every_claim_is_answered_by_something_that_runs():
    for claim in CLAIM.split(TEXT)[1:]:
        title = claim.splitlines()[0]
        if "So one head costs the same" in title:
            continue  # time is measured by a sweep; the page says which
        answer = FENCE.search(claim)
        assert answer and ">>> " in answer[1], title
    assert len(CLAIM.findall(TEXT)) >= 21


def test_nothing_that_looks_like_code_is_left_unrun():
    assert TEXT.count("```") == 2 * len(FENCE.findall(TEXT))
    for block in FENCE.findall(TEXT):
        assert block.startswith(">>> "), block
        assert block.endswith("\n\n"), "a doctest's output ends at an empty line"


def test_the_sweep_the_page_names_exists():
    suites = PAGE.parents[1] / "suites"
    for keyword in re.findall(r"pytest suites -k (\w+)", TEXT):
        assert (suites / f"bench_{keyword}.py").is_file()
