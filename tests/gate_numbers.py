"""The tables of docs/gate.md, computed from tests/data; `python -m tests.gate_numbers` writes them.

Every random choice is seeded: the page holds exactly what this says, and a test compares them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from results.gate import judge
from tests.launch_data import PLAN, drawn, launches, rates, suite_found, synthetic
from tests.nights import flat_share, found_share
from tests.rival_rules import RULES, rival_rates, rounds

PAGE = Path(__file__).resolve().parents[1] / "docs" / "gate.md"
OPENING, CLOSING = "<!-- made by `make numbers` -->", "<!-- end of what `make numbers` made -->"
_MACHINES = {"quiet_malloc": "quiet", "contended_malloc": "contended"}
_SUMMARIES = {"q25": "lower quartile", "min": "minimum", "median": "median"}
UNCHANGED_RUNS, CHANGED_RUNS, RIVAL_RUNS, SYNTHETIC_RUNS, SERIES = 1500, 200, 300, 700, 400


def gate_rows() -> list[str]:
    """A row for each set of real launches."""
    head = "| machine | one number a launch | unchanged runs failed | +3 % | +5 % | +10 % "
    rows = [head + "| all +5 %: the suite | suspects |", "|---|---|--:|--:|--:|--:|--:|--:|"]
    for data, machine in _MACHINES.items():
        for summary, words in _SUMMARIES.items():
            rows.append(_gate_row(f"{data}_{summary}", f"{machine} | {words}"))
    return rows


def _gate_row(name: str, words: str) -> str:
    times = launches()[name]
    same = rates(drawn(times, UNCHANGED_RUNS, ratio=1.0, seed=11))
    found = [
        rates(drawn(times, CHANGED_RUNS, ratio=ratio, seed=12)).found for ratio in (1.03, 1.05, 1.1)
    ]
    suite = suite_found(times, CHANGED_RUNS // 2, ratio=1.05, seed=13)
    cells = [f"{same.failed} of {same.runs}", *map(_percent, [*found, suite])]
    return f"| {words} | {' | '.join(cells)} | {same.suspects:.0f} of 200 |"


def synthetic_rows() -> list[str]:
    """A row for each level of noise of independent synthetic runs."""
    rows = ["| spread between launches | unchanged runs failed | suspects |", "|--:|--:|--:|"]
    for noise in (0.01, 0.015, 0.03):
        seen = rates(synthetic(SYNTHETIC_RUNS, noise=noise, seed=int(1e4 * noise)))
        counts = f"{seen.failed} of {seen.runs} | {seen.suspects:.0f} of 200"
        rows.append(f"| {100 * noise:.1f} % | {counts} |")
    return rows


def injection_rows() -> list[str]:
    """A row for each summary of the launches in which 20 cells really were slower."""
    rows = ["| one number a launch | found of 20 | false of 180 |", "|---|--:|--:|"]
    real = launches()
    for summary, words in _SUMMARIES.items():
        judged = judge(real[f"inj_malloc_A_{summary}"], real[f"inj_malloc_B_{summary}"], PLAN)
        named = judged.verdict == "regressed"
        found = int(named[real["injected_case_index"]].sum())
        rows.append(f"| {words} | {found} | {int(named.sum()) - found} |")
    return rows


def rival_rows() -> list[str]:
    """A row for each rule of another tool, on rounds made from the same launches."""
    head = "| rule | quiet: unchanged runs failed | +5 % found "
    rows = [head + "| contended: unchanged runs failed | +5 % found |", "|---|--:|--:|--:|--:|"]
    data = {name: rounds(name) for name in _MACHINES}
    for words, rule in RULES.items():
        cells = [x for times in data.values() for x in rival_rates(rule, times, RIVAL_RUNS)]
        rows.append(f"| {words} | {' | '.join(map(_percent, cells))} |")
    return rows


def history_rows() -> list[str]:
    """A row for each level of noise between nights."""
    rows = [
        "| noise between nights | flat series alerted | +5 % found after 3 nights | 5 | 10 |",
        "|--:|--:|--:|--:|--:|",
    ]
    for noise in (0.01, 0.02):
        found = [found_share(SERIES, noise, nights) for nights in (3, 5, 10)]
        cells = " | ".join(map(_percent, [flat_share(SERIES, noise), *found]))
        rows.append(f"| {100 * noise:.0f} % | {cells} |")
    return rows


def tables() -> dict[str, list[str]]:
    """The tables by the words above each."""
    return {
        f"The gate on real launches of 200 cells ({UNCHANGED_RUNS} unchanged runs and "
        f"{CHANGED_RUNS} with ten slowed cells a row):": gate_rows(),
        "20 cells that really worked 5 % longer, 25 pairs of launches:": injection_rows(),
        f"Unchanged synthetic runs of 200 cells, {SYNTHETIC_RUNS} a row:": synthetic_rows(),
        f"Other tools' rules on the same launches, {RIVAL_RUNS} runs a number:": rival_rows(),
        f"History, {SERIES} series of 60 nights a number:": history_rows(),
    }


def block() -> str:
    """What stands between the two marks of the page."""
    parts = ["\n".join([words, "", *rows]) for words, rows in tables().items()]
    return "\n\n".join([OPENING, *parts, CLOSING])


def of_page(text: str) -> str:
    """The block as the page has it."""
    return text[text.index(OPENING) : text.index(CLOSING) + len(CLOSING)]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def main() -> int:
    """Write the tables into the page; nothing is changed where they are the same."""
    text = PAGE.read_text(encoding="utf-8")
    made = text.replace(of_page(text), block())
    if made != text:
        PAGE.write_text(made, encoding="utf-8")
    print(f"{PAGE.name}: {'written' if made != text else 'the same'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
