"""The CPU rivals as they are installed, against float64: `make cpu-rivals` runs this file.

No default test collects it: there, `test_onnxruntime.py` and `test_openvino.py` drive the adapters
through stand-ins.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from impls import onnxruntime_attention, openvino_sdpa
from impls.interface.attention import attend
from impls.interface.availability import availability
from impls.interface.check import Check, check_output
from impls.interface.conformance import conformance
from impls.interface.inputs import make_inputs
from impls.interface.problem import Problem
from impls.interface.reference import reference
from suites.measure import gemm_ceiling, onnxruntime_product
from tests.layers import SHAPES, layer_of, tokens

RIVALS = [onnxruntime_attention.onnxruntime, openvino_sdpa.openvino_sdpa]


def judged(rival, text: str) -> Check:
    problem = Problem.parse(text)
    inputs = make_inputs(problem, "cpu")
    with torch.no_grad():
        out, _ = attend(rival, inputs.q, inputs.k, inputs.v, causal=problem.causal)
    return check_output(out, None, None, reference(inputs, problem))


@pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: rival.name)
def test_a_rival_is_right_wherever_it_says_that_it_is(rival):
    assert availability(rival, "cpu") == []
    found = conformance(rival, "cpu")
    assert found.ok, [(o.case, o.ask, o.reasons) for o in found.of("wrong")]
    assert len(found.of("passed")) > 90


@pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: rival.name)
@pytest.mark.parametrize("text", ["T=1031,H=2,d_h=64", "T=1031,H=4,H_kv=2,d_h=64,causal"])
def test_a_rival_is_right_with_two_threads(rival, text):
    torch.set_num_threads(2)
    try:
        check = judged(rival, text)
    finally:
        torch.set_num_threads(1)
    assert check.ok, check.reasons


@pytest.mark.parametrize("name", ["single-head", "MHA", "GQA", "MQA", "MLA"])
def test_openvino_decodes_in_steps_what_one_full_pass_gives(name):
    x = tokens(2, 9, SHAPES[name].d_model, dtype=torch.float32)
    layers = [
        layer_of(SHAPES[name], one, torch.float32) for one in ("naive", openvino_sdpa.openvino_sdpa)
    ]
    with torch.no_grad():
        expected, cache = layers[0](x), layers[1].new_cache(2, 12)
        found = torch.cat([layers[1](part, cache=cache) for part in x.split((5, 1, 3), 1)], 1)
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)


def test_openvino_in_bfloat16_is_told_wrong_of_float32(monkeypatch):
    """Without its hint it takes bfloat16 where the CPU has it, here it is told to anywhere."""
    import openvino  # pyright: ignore[reportMissingImports]  # an extra, not in the lock

    class Core(openvino.Core):
        def compile_model(self, model, device, settings):
            hasty = settings | {"INFERENCE_PRECISION_HINT": "bf16"}
            return super().compile_model(model, device, hasty)

    monkeypatch.setattr(openvino, "Core", Core)
    openvino_sdpa._request.cache_clear()
    try:
        assert not judged(openvino_sdpa.openvino_sdpa, "T=257,H=2,d_h=64").ok
    finally:
        openvino_sdpa._request.cache_clear()


def test_onnxruntime_is_a_provider_of_the_gemm_ceiling_and_gives_the_product():
    assert "onnxruntime" in {w.provider for w in gemm_ceiling.works(1) if "float32" in w.group}
    x, y = np.random.default_rng(0).standard_normal((2, 65, 65)).astype(np.float32)
    out = np.full((65, 65), np.nan, np.float32)
    onnxruntime_product.product(x, y, out, 1)()
    np.testing.assert_allclose(out, x.astype(np.float64) @ y, atol=1e-4)
