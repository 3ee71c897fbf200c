"""A cell's problem in the words of a sentence: what a reader needs to know it again, no more."""

from __future__ import annotations

from collections.abc import Callable

from impls.interface.problem import SOFTMAX, Around, Problem, range_text
from results.run import Run
from results.schema import TIMED, Cell

DTYPE_NAMES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "float64": "fp64"}


def where(cell: Cell, run: Run, *, tells_masking: bool = True) -> str:
    """The lengths, then heads and dtype in brackets: "T = 1024, full (H 8, d_h 64, fp32)".

    What is as usual (full, forward, hot, B 1, the layout bhtd) is left out where all timed cells
    of the suite share it.
    """
    timed = [c for c in run.cells if c.suite == cell.suite and c.status in TIMED]

    def varies(read: Callable[[Cell], object]) -> bool:
        return len({read(c) for c in timed}) > 1

    p = cell.problem
    words = [", ".join(f"{name} = {text}" for name, text in lengths_of(p).items())]
    if tells_masking and (p.causal or varies(lambda c: c.problem.causal)):
        words.append("causal" if p.causal else "full")
    if p.around is not None:
        words.append(part_text(p.around))
    if cell.pass_ != "forward" or varies(lambda c: c.pass_):
        words.append(cell.pass_.replace("_", " + "))
    if cell.cache != "hot" or varies(lambda c: c.cache):
        words.append(cell.cache)
    sizes = [f"B {p.B}"] if p.B != 1 or varies(lambda c: c.problem.B) else []
    sizes.append(f"H {p.H}")
    sizes += [f"H_kv {p.H_kv}"] if p.H_kv != p.H else []
    sizes.append(f"d_h {p.d_h}")
    sizes += [f"d_v {p.d_v}"] if p.d_v != p.d_h else []
    sizes += [f"d_model {p.around.shape.d_model}"] if p.around is not None else []
    sizes.append(DTYPE_NAMES[p.dtype])
    sizes += [f"window {p.window}"] if p.window is not None else []
    sizes += [f"operator {p.operator}"] if p.operator != SOFTMAX else []
    if p.layout != "bhtd" or varies(lambda c: c.problem.layout):
        sizes.append(p.layout)
    return f"{', '.join(words)} ({', '.join(sizes)})"


def lengths_of(problem: Problem) -> dict[str, str]:
    """T, or T_q and T_kv where they differ; of sequences the shortest and longest, "37…512"."""
    if problem.lengths is None:
        texts = (str(problem.T_q), str(problem.T_kv))
    else:
        both = (problem.lengths, problem.lengths_kv or problem.lengths)
        texts = tuple(range_text(lengths) for lengths in both)
    return {"T": texts[0]} if texts[0] == texts[1] else {"T_q": texts[0], "T_kv": texts[1]}


def part_text(around: Around) -> str:
    """The part of a layer that was computed: "layer", "block with dropout 0.1"."""
    names = {"output": "output projection", "feed_forward": "feed-forward part"}
    dropout = f" with dropout {around.dropout:g}" if around.dropout else ""
    return f"{names.get(around.part, around.part)}{dropout}"
