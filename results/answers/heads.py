"""Heads: what more of them take at one d_model, and what sharing keys and values saves."""

from __future__ import annotations

from results.finding import Finding, finding
from results.ladder import beside, ladders, longest_full
from results.run import Run

SUITE = "heads"


def answer(run: Run) -> Finding | None:
    """The most heads beside the fewest, and the fewest kv heads beside one for every head."""
    split = longest_full(ladders(run, SUITE, lambda p: p.H))
    by_H_kv = ladders(run, SUITE, lambda p: p.H_kv)
    # Where H itself grows, so does H_kv.
    shared = longest_full([one for one in by_H_kv if len({p.H for p in one.problems}) == 1])
    told, cells = [], []
    for line, size, base in ((split, -1, 0), (shared, 0, -1)):
        if line is not None:
            told.append(beside(line, line.sizes[size], line.sizes[base], run))
            cells += line.cells(line.sizes[base], line.sizes[size])
    sentence = "; ".join(told)
    return finding(f"{sentence[0].upper()}{sentence[1:]}.", cells) if told else None
