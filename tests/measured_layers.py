"""Parts of small layers, measured in this process."""

from __future__ import annotations

from impls.interface.attention import Implementation
from impls.interface.layer_problem import prefill_part
from impls.interface.layer_shape import Latent, LayerShape
from impls.interface.problem import Problem
from impls.interface.registry import implementations
from suites.measure.samples import Settings
from suites.session.cell import Conditions, measure_cell
from suites.session.subject import SubjectMemory
from suites.session.sweep import Cell
from tests.suite_process import ROOFS

HEADS = LayerShape(d_model=40, H=4, H_kv=2, d_h=24)
FULL = LayerShape(d_model=40, H=4, H_kv=2, d_h=24, is_causal=False)
WINDOW = LayerShape(d_model=40, H=4, H_kv=2, d_h=24, window=5)
LATENT = LayerShape(d_model=40, H=3, d_h=16, latent=Latent(d_c=20, d_R=8, d_v=24, d_c_q=28))
PARTS = ["projections", "output", "layer", "feed_forward", "block"]
PASSES = ["forward", "backward", "forward_backward"]
NAIVE = implementations()["naive"]
CONDITIONS = Conditions(
    device="cpu",
    settings=Settings(budget_s=0.02, min_samples=3),
    ceilings=ROOFS,
    flop_convention="exact",
    compile_limit_s=60.0,
)


def measured(problem: Problem, implementation: Implementation = NAIVE, pass_: str = "forward"):
    cell = Cell(implementation, problem, pass_, "hot", "cpu_time", "test", "test")
    return measure_cell(cell, CONDITIONS, SubjectMemory())


def part(name: str, shape: LayerShape = HEADS, T: int = 17, dtype: str = "float32", **sizes):
    d_ff = 56 if name in ("feed_forward", "block") else 0
    return prefill_part(shape, name, B=2, T=T, dtype=dtype, d_ff=d_ff, **sizes)


def fake(forward, **declared) -> Implementation:
    return Implementation(name="fake", forward=forward, summary="fake", **declared)
