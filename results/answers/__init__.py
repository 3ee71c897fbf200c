"""What each sweep answers: one module a sweep, `answer(run) -> Finding | None`, found by scan.

The question stands in the docstring of the sweep, `suites/bench_<axis>.py`; here it is answered in
a sentence with the run's own numbers, or not at all where the run does not bear one out. A sweep
that asks more than one sentence holds has a second module, `<axis>_<what>.py`.
"""

from __future__ import annotations

import importlib
import pkgutil

from results.finding import Finding
from results.run import Run


def answers(run: Run) -> tuple[Finding, ...]:
    """The sentences of all sweeps that have one, in the order of their names."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    told = [module.answer(run) for module in modules]
    return tuple(one for one in told if one is not None)
