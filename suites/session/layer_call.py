"""One pass over a part of a layer, ready to be called: what stands inside the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from impls.interface.attention import Implementation
from impls.interface.layer_problem import core_of
from impls.interface.problem import Problem
from impls.layer.part import module_of, output_names, run_part, with_weights
from impls.layer.part_inputs import PartInputs
from suites.measure import device
from suites.session.sweep import Cell

# The same dropout masks in every call that is checked.
_SEED = 2017


class LayerCall:
    """One pass over one part as a zero-argument call; the module shares the subject's weights.

    Where tokens stand in a cache, each call first forgets those that the one before appended, which
    is one assignment inside the clock. `masks` are what dropout kept in the last call of `outputs`.
    """

    def __init__(self, cell: Cell, inputs: PartInputs, device_name: str) -> None:
        """`prepare` is called here, outside any clock; `prepare_s` is how long it took."""
        self.cell, self.inputs, self._device = cell, inputs, device_name
        self._around = inputs.around
        started = time.perf_counter()
        core = in_layer(cell.implementation, cell.problem, device_name)
        self.prepare_s = time.perf_counter() - started
        self._module = with_weights(module_of(self._around, core), inputs.weights)
        weights = dict(self._module.named_parameters())
        self._x, self._leaves = inputs.x, {}
        self._out: tuple[torch.Tensor, ...] | None = None
        self.masks: list[torch.Tensor] = []
        if cell.pass_ != "forward":
            # Detached first: a leaf of its own, so that no graph reaches another cell's.
            self._x = inputs.x.detach().requires_grad_()
            self._leaves = {"dx": self._x} | {f"d{n}": weights[n] for n in inputs.weights}
        if cell.pass_ == "backward":
            with self._seen_dropout():
                self._out = self._forward()

    def run(self) -> tuple[torch.Tensor, ...]:
        """What the part gives, or the gradients of x and of every weight: fresh each time."""
        if self.cell.pass_ == "forward":
            return self._forward()
        out = self._forward() if self._out is None else self._out
        return self._gradients(out)

    def outputs(self) -> dict[str, torch.Tensor]:
        """What one call gives, by name: its output, and with a backward "dx" and "d" + weight."""
        if self._out is not None:
            out = self._out
        else:
            with self._seen_dropout():
                out = self._forward()
        if self.inputs.cache is not None:
            # Keys and values of projections lie in the cache, which other calls write to.
            out = tuple(tensor.clone() for tensor in out)
        given = {n: t.detach() for n, t in zip(output_names(self._around), out, strict=True)}
        if self.cell.pass_ != "forward":
            given |= dict(zip(self._leaves, self._gradients(out), strict=True))
        self.wait()
        return given

    def wait(self) -> None:
        """Until all that was called has been computed."""
        device.synchronize(self._device)

    def _forward(self) -> tuple[torch.Tensor, ...]:
        cache = self.inputs.cache
        if cache is not None:
            cache.truncate(self.inputs.n_cached)
        return run_part(self._module, self._around, self._x, cache)

    def _gradients(self, out: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(
            out, tuple(self._leaves.values()), self.inputs.d_out, retain_graph=self._out is not None
        )

    @contextmanager
    def _seen_dropout(self) -> Iterator[None]:
        """Note which elements dropout keeps, the same ones in each such call."""
        self.masks = []

        def note(_: nn.Module, __: Any, out: torch.Tensor) -> None:
            self.masks.append(out.detach() != 0)

        drops = [m for m in self._module.modules() if isinstance(m, nn.Dropout) and m.p > 0.0]
        handles = [drop.register_forward_hook(note) for drop in drops]
        try:
            with torch.random.fork_rng(None if self._device == "cuda" else []):
                torch.manual_seed(_SEED)
                yield
        finally:
            for handle in handles:
                handle.remove()


def in_layer(implementation: Implementation, problem: Problem, device_name: str) -> Implementation:
    """The implementation as a layer calls it: prepared for the problem's core, and waited for.

    What is prepared has the default scale: an absorbed core, which has another, is not prepared.
    """
    around = problem.around
    forward: Callable[..., torch.Tensor] = implementation.forward
    assert around is not None
    if not around.has_core:
        return implementation
    if implementation.prepare is not None and not around.is_absorbed:
        prepared = implementation.prepare(core_of(problem), device_name)

        def of_the_core(*tensors: torch.Tensor, **_: Any) -> torch.Tensor:
            return prepared(*tensors)

        forward = of_the_core
    if implementation.synchronize is None:
        return replace(implementation, forward=forward)
    synchronize, asynchronous = implementation.synchronize, forward

    def finished(*tensors: torch.Tensor, **arguments: Any) -> torch.Tensor:
        out = asynchronous(*tensors, **arguments)
        # The output projection reads it next.
        synchronize()
        return out

    return replace(implementation, forward=finished)
