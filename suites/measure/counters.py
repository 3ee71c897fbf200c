"""What one call can be counted by, exactly and on any machine: operators, FLOP, compilations."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from impls.interface.failures import failures


@dataclass(frozen=True)
class Compilations:
    """What torch.compile has done in this process so far: graphs, and breaks between them."""

    graphs: int = 0
    graph_breaks: int = 0

    def since(self, before: Compilations) -> Compilations:
        """What was done after `before` was read."""
        return Compilations(self.graphs - before.graphs, self.graph_breaks - before.graph_breaks)


def compilations() -> Compilations:
    """The running totals; zero where nothing has asked for a compiler yet."""
    utils: Any = sys.modules.get("torch._dynamo.utils")
    if utils is None:
        return Compilations()
    return Compilations(
        graphs=utils.counters["stats"]["unique_graphs"],
        graph_breaks=sum(utils.counters["graph_break"].values()),
    )


@dataclass(frozen=True)
class Operators:
    """What one call dispatched.

    `torch_flop` is by torch's own formulas, of the products that were really made: masked pairs
    count where they are multiplied. None where an operator that has no formula did the work.
    """

    operators: int | None = None
    torch_flop: int | None = None


UNKNOWN = Operators()
# Products of vectors, for which torch has no formula.
_PRODUCTS = frozenset(("dot", "vdot", "mv", "addmv", "addr"))


def operators_of(call: Callable[[], object]) -> Operators:
    """Make one call and count what it dispatches, views included.

    Not for compiled code: torch.compile steps aside for a dispatch mode. Unknown where the call
    cannot be made so.
    """
    counting = _Counting()
    with suppress(*failures()):
        with counting:
            call()
        return Operators(counting.n, counting.flop or None)
    return UNKNOWN


class _Counting(TorchDispatchMode):
    """Sees each operator below autograd; `flop` is None once one was opaque."""

    def __init__(self) -> None:
        # A sixth of a second, once; `FlopCounterMode` itself would import the compiler.
        from torch.utils.flop_counter import flop_registry

        super().__init__()
        self._formulas = flop_registry
        self.n = 0
        self.flop: int | None = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: for that torch imports its compiler, seconds, and no compiled code comes here."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        self.n += 1
        formula = self._formulas.get(func._overloadpacket)
        if formula is None:
            if _is_opaque(func):
                self.flop = None
        elif self.flop is not None:
            self.flop += int(formula(*args, **kwargs, out_val=out))
        return out


def _is_opaque(func: Any) -> bool:
    """Whether an operator without a formula may do products: on a CPU torch knows none of SDPA's.

    aten's other operators without one are element-wise, reductions, copies and views.
    """
    is_ours_to_read = func.namespace in ("aten", "prim", "prims")
    return not is_ours_to_read or func._opname in _PRODUCTS or "attention" in func._opname
