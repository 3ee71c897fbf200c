"""Head size: what the widest head takes beside the narrowest, at one H and at one d_model."""

from __future__ import annotations

from results.finding import Finding, finding
from results.ladder import beside, ladders, longest_full
from results.run import Run

SUITE = "head_size"


def answer(run: Run) -> Finding | None:
    """The widest head beside the narrowest where H stays, and where H·d_h does."""
    found = ladders(run, SUITE, lambda p: p.d_h)
    told, cells = [], []
    for stays in (lambda p: p.H, lambda p: p.H * p.d_h):
        same = [one for one in found if len({stays(p) for p in one.problems}) == 1]
        if (line := longest_full(same)) is not None:
            told.append(beside(line, line.sizes[-1], line.sizes[0], run))
            cells += line.cells(line.sizes[0], line.sizes[-1])
    sentence = "; ".join(told)
    return finding(f"{sentence[0].upper()}{sentence[1:]}.", cells) if told else None
