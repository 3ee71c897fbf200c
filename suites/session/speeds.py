"""How fast implementations are here, found by trying each: what a plan estimates with."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import torch

from impls.interface import torch_state
from impls.interface.attention import Implementation, attend, reasons_against
from impls.interface.cost import Cost
from impls.interface.failures import failures
from impls.interface.inputs import make_inputs
from impls.interface.problem import SOFTMAX, Problem
from suites.session.orders import UNASKED, Orders
from suites.session.subject import cost_of

TRIES = 3
UNKNOWN = 1e9
"""FLOP/s and bytes/s where nothing could be tried."""


@dataclass(frozen=True)
class Speed:
    """What one implementation reached on three problems, each bound by one thing.

    Attributes:
        flop_per_s: useful FLOP/s of many queries: arithmetic.
        step_flop_per_s: useful FLOP/s of one query on grouped heads: what a query head costs,
            whether or not its keys are another head's too.
        step_bytes_per_s: compulsory bytes/s of one query where every head has keys of its own.
    """

    flop_per_s: float
    step_flop_per_s: float
    step_bytes_per_s: float


Speeds = Mapping[tuple[str, str], Speed]
"""By the name of the implementation and the dtype."""


def probe_speeds(
    implementations: Sequence[Implementation],
    device: str,
    dtypes: Collection[str],
    synchronize: Callable[[], None],
    orders: Orders = UNASKED,
) -> dict[tuple[str, str], Speed]:
    """The speed of each implementation at each dtype, from warm calls.

    Those that compile are not tried, which would cost a compilation, nor can those that fail here:
    they are planned with the slowest of the others, and their own cells tell what is wrong.
    """

    def rates(problem: Problem, work: Callable[[Cost], int]) -> dict[str, float]:
        return _rates(implementations, problem, work, device, synchronize, orders)

    found: dict[tuple[str, str], Speed] = {}
    for dtype in dtypes:
        many, grouped, own = _problems(device, dtype)
        seen = [
            rates(many, lambda of: of.flop),
            rates(grouped, lambda of: of.flop),
            rates(own, lambda of: of.compulsory_bytes),
        ]
        for i in implementations:
            found[i.name, dtype] = Speed(*(rate[i.name] for rate in seen))
    return found


def _problems(device: str, dtype: str) -> tuple[Problem, Problem, Problem]:
    if device == "cpu":
        many = Problem(B=1, T_q=512, T_kv=512, H=8, d_h=64, dtype=dtype)
        grouped = Problem(B=1, T_q=1, T_kv=4096, H=32, H_kv=8, d_h=128, dtype=dtype)
    else:
        many = Problem(B=4, T_q=2048, T_kv=2048, H=16, d_h=64, dtype=dtype)
        grouped = Problem(B=16, T_q=1, T_kv=8192, H=32, H_kv=8, d_h=128, dtype=dtype)
    # As many heads as fill the last-level cache: what does not fit it is what memory binds.
    return many, grouped, grouped.with_(H=16, H_kv=16)


def _rates(
    implementations: Sequence[Implementation],
    problem: Problem,
    work: Callable[[Cost], int],
    device: str,
    synchronize: Callable[[], None],
    orders: Orders,
) -> dict[str, float]:
    """`work` a second of each implementation's fastest call, by name."""
    inputs = make_inputs(problem, device)
    # On a CPU a neighbour's load must not decide how far the sweep goes.
    clock = time.process_time if device == "cpu" else time.perf_counter
    rates: dict[str, float] = {}
    for implementation in implementations:
        mine = _of_its_operator(problem, implementation)
        if implementation.needs_compiler or reasons_against(implementation, mine, device):
            continue
        if implementation.name in orders.not_probed:
            continue
        trying = orders.trying(implementation.name, "speed")
        # What it changes for all would hold for the next, and for the inputs of what follows.
        with trying, suppress(*failures()), torch_state.kept(), torch.no_grad():
            durations = []
            for _ in range(TRIES):
                started = clock()
                attend(implementation, inputs.q, inputs.k, inputs.v, causal=mine.causal)
                synchronize()
                durations.append(clock() - started)
            rates[implementation.name] = work(cost_of(mine, "forward")) / min(durations)
    alike = [i.name for i in implementations if i.operator == SOFTMAX]
    slowest = min((rates[name] for name in alike if name in rates), default=UNKNOWN)
    return {i.name: rates.get(i.name, slowest) for i in implementations}


def _of_its_operator(problem: Problem, implementation: Implementation) -> Problem:
    """The same sizes; another operator's causal, as a recurrence takes longest there."""
    if implementation.operator == SOFTMAX:
        return problem
    return problem.with_(operator=implementation.operator, causal=True)
