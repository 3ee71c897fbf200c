"""Layer: the core's share of a layer's time and FLOP along T, and what a block adds to it."""

from __future__ import annotations

from collections import defaultdict

from results.contest import fastest_name
from results.finding import Finding, finding
from results.layer_parts import PARTS, Breakdown, breakdowns
from results.phrases import DTYPE_NAMES
from results.run import Run
from results.units import digits

# A share of time below which a difference is told as none.
LEAST = 0.005


def answer(run: Run) -> Finding | None:
    """Where the time of a layer goes, for the shape and implementation with the most lengths."""
    lines: dict[tuple, dict[int, Breakdown]] = defaultdict(dict)
    for one in breakdowns(run.comparable_cells):
        if one.pass_ == "forward":
            lines[_line(one)][one.problem.T_kv] = one
    if not lines:
        return None
    winner = fastest_name(run)
    by_T = max(lines.values(), key=lambda by_T: _telling(by_T, winner))
    longest = by_T[max(by_T)]
    # A block's parts are many: the longest layers may have been measured without.
    in_block = max((T for T, one in by_T.items() if one.has_block), default=None)
    words = [_core(longest, by_T), _crossing(longest)]
    if in_block is not None:
        words.append(_block(by_T[in_block], tells_T=in_block != longest.problem.T_kv))
    training = next(
        (
            one
            for one in breakdowns(run.comparable_cells)
            if one.pass_ == "forward_backward"
            and (_line(one), one.problem) == (_line(longest), longest.problem)
        ),
        None,
    )
    if training is not None:
        times = digits(training.time_s(training.whole) / longest.time_s(longest.whole))
        words.append(f"with its backward the {longest.whole} takes {times} × its forward")
    shown = [one for one in (*by_T.values(), training) if one is not None]
    cells = [cell for one in shown for some in one.cells.values() for cell in some]
    return finding("; ".join(word for word in words if word) + ".", cells)


def _core(longest: Breakdown, by_T: dict[int, Breakdown]) -> str:
    p, around = longest.problem, longest.problem.around
    assert around is not None
    heads = f"H {p.H}" + (f", H_kv {p.H_kv}" if p.H_kv != p.H else "")
    mask = "causal" if p.causal else "full"
    launches = len(longest.cells["layer"])
    launched = "1 launch" if launches == 1 else f"median of {launches} launches"
    words = (
        f"At T = {p.T_kv}, d_model {around.shape.d_model} ({mask}, {heads}, "
        f"{DTYPE_NAMES[p.dtype]}; {launched}), the core takes {_share(longest.core_time_share)} of "
        f"the layer's time with {longest.implementation} and has "
        f"{_share(longest.core_flop_share)} of its FLOP"
    )
    if len(by_T) > 1:
        shortest = by_T[min(by_T)]
        words += (
            f", at T = {shortest.problem.T_kv} {_share(shortest.core_time_share)} and "
            f"{_share(shortest.core_flop_share)}"
        )
    return words


def _crossing(one: Breakdown) -> str:
    T = one.crossing_T
    return f"their FLOP are equal at T = {T:.0f}" if T == T else ""


def _block(one: Breakdown, *, tells_T: bool) -> str:
    """The shares of a block, and what its dropout adds."""
    whole_s = one.time_s("block")
    named = {"feed_forward": "the feed-forward part", "output": "the output projection"}
    parts = [
        f"{named.get(part, f'the {part}')} {_share(one.time_s(part) / whole_s)}" for part in PARTS
    ]
    rest = f" and the rest {_share(one.rest_s / whole_s)}" if one.rest_s > 0.0 else ""
    at = f" at T = {one.problem.T_kv}" if tells_T else ""
    words = f"of the block's time{at} {', '.join(parts)}{rest}"
    if "dropout" in one.cells:
        dropout = one.cells["dropout"][0].problem.around
        assert dropout is not None
        added = one.time_s("dropout") / whole_s - 1.0
        more = _share(added) if added >= LEAST else "nothing that could be measured"
        words += f"; dropout {dropout.dropout:g} adds {more}"
    return words


def _share(share: float) -> str:
    return f"{100 * share:.0f} %"


def _line(one: Breakdown) -> tuple:
    p = one.problem
    return (one.implementation, p.around, p.H, p.H_kv, p.causal, p.dtype, *_kept(one))


def _kept(one: Breakdown) -> tuple[str, str]:
    cell = one.cells["layer"][0]
    return (cell.cache, cell.clock)


def _telling(by_T: dict[int, Breakdown], winner: str) -> tuple:
    longest = by_T[max(by_T)]
    has_block = any(one.has_block for one in by_T.values())
    return (len(by_T), has_block, longest.implementation == winner, max(by_T))
