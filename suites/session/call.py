"""One pass over one problem's inputs, ready to be called: what stands inside the clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import torch
import torch._functorch.config

from impls.interface.inputs import Inputs
from suites.measure import device
from suites.session.sweep import Cell


class Call:
    """One pass over one problem's inputs as a zero-argument call, and what it gave last."""

    def __init__(self, cell: Cell, inputs: Inputs, device_name: str) -> None:
        """`prepare` is called here, outside any clock; `prepare_s` is how long it took."""
        self.cell, self.inputs, self._device = cell, inputs, device_name
        started = time.perf_counter()
        prepared = cell.implementation.prepared(cell.problem, device_name)
        self._forward: Callable[..., torch.Tensor] = prepared or partial(
            cell.implementation.forward,
            causal=cell.problem.causal,
            window=cell.problem.window,
            mask=None,
            scale=None,
            softcap=None,
        )
        self.prepare_s = time.perf_counter() - started
        self._leaves: tuple[torch.Tensor, ...] = ()
        self._out: torch.Tensor | None = None
        if cell.pass_ != "forward":
            # Detached first: leaves of their own, so that one cell's graph never reaches another's.
            self._leaves = tuple(
                t.detach().requires_grad_() for t in (inputs.q, inputs.k, inputs.v)
            )
        if cell.pass_ == "backward":
            # A graph that is kept for every call: compiled code may not give its buffers away.
            with torch._functorch.config.patch(donated_buffer=False):
                self._out = self._forward(*self._leaves)

    def run(self) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """The output, or (dq, dk, dv): fresh gradients each time, never added to older ones."""
        if self.cell.pass_ == "forward":
            return self._forward(self.inputs.q, self.inputs.k, self.inputs.v)
        if self._out is not None:
            return torch.autograd.grad(
                self._out, self._leaves, self.inputs.d_out, retain_graph=True
            )
        out = self._forward(*self._leaves)
        return torch.autograd.grad(out, self._leaves, self.inputs.d_out)

    def outputs(self) -> dict[str, torch.Tensor]:
        """What one call gives, by name: "out" and, with a backward, "dq", "dk" and "dv"."""
        if self.cell.pass_ == "forward":
            given = {"out": self._forward(self.inputs.q, self.inputs.k, self.inputs.v)}
        else:
            out = self._out if self._out is not None else self._forward(*self._leaves)
            gradients = torch.autograd.grad(
                out, self._leaves, self.inputs.d_out, retain_graph=self._out is not None
            )
            given = {"out": out.detach()} | dict(zip(("dq", "dk", "dv"), gradients, strict=True))
        self.wait()
        return given

    def wait(self) -> None:
        """Until all that was called has been computed."""
        if self.cell.implementation.synchronize is not None:
            self.cell.implementation.synchronize()
        device.synchronize(self._device)
