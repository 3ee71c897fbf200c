"""The reference against loops in plain Python floats, written from the definition alone."""

import math

import pytest
import torch

from impls.interface import sample
from impls.interface.inputs import make_inputs
from impls.interface.problem import Problem
from impls.interface.reference import reference


def looped(inputs, p, mask=None, scale=None, softcap=None):
    """out, lse, dq, dk, dv by the definition, one query and one key at a time."""
    scale = 1 / math.sqrt(p.d_h) if scale is None else scale
    q, k, v, d_out = (t.double() for t in (inputs.q, inputs.k, inputs.v, inputs.d_out))
    out, lse = torch.zeros(p.B, p.H, p.T_q, p.d_v).double(), torch.zeros(p.B, p.H, p.T_q).double()
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    if mask is not None:
        mask = mask.expand(p.B, p.H, p.T_q, p.T_kv)
    for b in range(p.B):
        for h in range(p.H):
            g = h // (p.H // p.H_kv)
            for i in range(p.T_q):
                seen = []
                for j in range(p.T_kv):
                    last = i + p.T_kv - p.T_q
                    visible = not p.causal or j <= last
                    if p.window is not None:
                        visible = visible and j > last - p.window
                    raw = scale * sum(float(q[b, h, i, c] * k[b, g, j, c]) for c in range(p.d_h))
                    score, slope = raw, 1.0
                    if softcap is not None:
                        score = softcap * math.tanh(raw / softcap)
                        slope = 1 - math.tanh(raw / softcap) ** 2
                    if mask is not None:
                        extra = mask[b, h, i, j]
                        if mask.dtype == torch.bool:
                            visible = visible and bool(extra)
                        elif float(extra) == -math.inf:
                            visible = False
                        else:
                            score += float(extra)
                    if visible:
                        seen.append((j, score, slope))
                total = sum(math.exp(s) for _, s, _ in seen)
                lse[b, h, i] = math.log(total) if seen else -math.inf
                weights = [(j, math.exp(s) / total, slope) for j, s, slope in seen]
                for j, weight, _ in weights:
                    out[b, h, i] += weight * v[b, g, j]
                    dv[b, g, j] += weight * d_out[b, h, i]
                along = sum(w * float(d_out[b, h, i] @ v[b, g, j]) for j, w, _ in weights)
                for j, weight, slope in weights:
                    d_score = weight * (float(d_out[b, h, i] @ v[b, g, j]) - along) * slope
                    dq[b, h, i] += scale * d_score * k[b, g, j]
                    dk[b, g, j] += scale * d_score * q[b, h, i]
    return {"out": out, "lse": lse, "dq": dq, "dk": dk, "dv": dv}


def assert_same(found, expected):
    for name, value in expected.items():
        torch.testing.assert_close(
            found.outputs[name].value, found.rows_of(name, value), rtol=1e-12, atol=1e-13
        )


@pytest.mark.parametrize(
    "text",
    [
        "T=1,H=1,d_h=4",
        "T=5,H=2,d_h=3,causal",
        "B=2,T_q=3,T_kv=6,H=2,d_h=4,causal",
        "T_q=6,T_kv=3,H=2,d_h=4,causal",
        "T=7,H=2,d_h=4,causal,window=2",
        "T_q=3,T_kv=7,H=1,d_h=4,causal,window=3",
        "B=2,T=4,H=6,H_kv=2,d_h=4",
        "T_q=2,T_kv=5,H=3,H_kv=1,d_h=4,d_v=2,bthd",
        "T=4,H=2,d_h=4,packed,bfloat16",
    ],
)
def test_reference_is_the_definition(text):
    problem = Problem.parse(text)
    inputs = make_inputs(problem, "cpu")
    assert_same(reference(inputs, problem), looped(inputs, problem))


@pytest.mark.parametrize("further", [{"scale": 0.0}, {"scale": -0.7}, {"softcap": 0.9}])
def test_reference_scales_and_caps_as_defined(further):
    problem = Problem.parse("T_q=3,T_kv=5,H=2,d_h=4")
    inputs = make_inputs(problem, "cpu")
    assert_same(reference(inputs, problem, **further), looped(inputs, problem, **further))


@pytest.mark.parametrize("kind", ["bool", "float", "row"])
def test_reference_masks_as_defined_and_gives_dead_rows_nothing(kind):
    problem = Problem.parse("B=2,T_q=4,T_kv=5,H=2,d_h=4")
    inputs = make_inputs(problem, "cpu")
    generator = torch.Generator().manual_seed(3)
    keep = torch.rand(2, 1, 4, 5, generator=generator) < 0.7
    keep[:, :, 2] = False
    mask = {
        "bool": keep,
        "float": torch.randn(2, 4, 5, generator=generator).masked_fill(~keep[0], -torch.inf),
        "row": torch.tensor([True, False, True, True, False]),
    }[kind]
    found = reference(inputs, problem, mask=mask)
    assert_same(found, looped(inputs, problem, mask=mask))
    if kind != "row":
        dead = found.outputs["out"].value[:, 2]
        assert torch.equal(dead, torch.zeros_like(dead))
        assert bool((found.outputs["lse"].value[:, 2] == -torch.inf).all())


def sines(problem):
    """Elements sin(f·n + 0.3), n their index, f = 0.7 for q, 0.37 for k, 0.91 for v; d_out 1."""
    inputs = make_inputs(problem.with_(dtype="float64"), "cpu")
    for tensor, f in ((inputs.q, 0.7), (inputs.k, 0.37), (inputs.v, 0.91)):
        n = torch.arange(tensor.numel(), dtype=torch.float64)
        tensor.copy_(torch.sin(f * n + 0.3).reshape(tensor.shape))
    inputs.d_out.fill_(1.0)
    return inputs


LAST_OF_FOUR = [0.044261, 0.121071, 0.104353, 0.007021]
MEAN_OF_V = [0.063398, 0.052977, 0.001632, -0.050975]


@pytest.mark.parametrize(
    ("text", "further", "head", "row", "out", "lse"),
    [
        # Aligned top-left row 0 would be [0.29552, 0.935616, …] with the lse 1.06592.
        ("T_q=2,T_kv=5", "causal", 0, 0, [-0.133778, 0.087238, 0.240861, 0.208417], 1.799711),
        ("T_q=2,T_kv=5", "causal", 0, 1, [0.054585, 0.142539, 0.12038, 0.005227], 1.806955),
        # An inverted mask would give row 3 nothing.
        ("T=4", "lower triangle", 0, 0, [0.29552, 0.935616, 0.85294, 0.111361], None),
        ("T=4", "lower triangle", 0, 3, LAST_OF_FOUR, None),
        ("T=4", "row 2 dead", 0, 2, [0.0, 0.0, 0.0, 0.0], -math.inf),
        ("T=4", "row 2 dead", 0, 1, [-0.001856, 0.159142, 0.197201, 0.082921], None),
        # Heads tiled instead of interleaved would begin with -0.388947.
        ("T=3,H=4,H_kv=2", "", 1, 0, [0.364395, 0.291859, -0.00614, -0.299396], None),
        ("T_q=3,T_kv=5", "scale 0", 0, 1, MEAN_OF_V, math.log(5)),
        ("T_q=3,T_kv=5", "", 0, 0, [0.090416, 0.049378, -0.029805, -0.085963], None),
        # In base 2 it would be 3.756982.
        ("T_q=1,T_kv=9", "", 0, 0, [-0.110198, 0.05121, 0.173058, 0.161217], 2.604141),
    ],
)
def test_reference_gives_the_published_numbers(text, further, head, row, out, lse):
    problem = Problem.parse(text, H=1, d_h=4, causal=further == "causal", dtype="float64")
    masks = {
        "lower triangle": torch.ones(4, 4, dtype=torch.bool).tril(),
        "row 2 dead": torch.tensor([True, True, False, True])[:, None],
    }
    found = reference(
        sines(problem),
        problem,
        mask=masks.get(further),
        scale=0.0 if further == "scale 0" else None,
    )
    assert found.outputs["out"].value[head, row].tolist() == pytest.approx(out, abs=1e-6)
    if lse is not None:
        assert float(found.outputs["lse"].value[head, row]) == pytest.approx(lse, abs=1e-6)
    for name in ("dq", "dk", "dv"):
        assert bool(found.outputs[name].value.isfinite().all())


def test_sampled_reference_is_the_full_one_at_the_sampled_places(monkeypatch):
    problem = Problem.parse("B=2,T_q=300,T_kv=310,H=6,H_kv=3,d_h=8,causal")
    inputs = make_inputs(problem, "cpu")
    monkeypatch.setattr(sample, "MAX_PAIRS", 1 << 62)
    full = reference(inputs, problem)
    monkeypatch.setattr(sample, "MAX_PAIRS", 1 << 18)
    part = reference(inputs, problem)
    assert full.sample.words == "all"
    assert part.sample.words == "sampled 105 of 300 rows in 8 of 12 heads"
    shapes = {"out": (2, 6, 300, 8), "lse": (2, 6, 300), "dq": (2, 6, 300, 8)}
    shapes |= {"dk": (2, 3, 310, 8), "dv": (2, 3, 310, 8)}
    for name, expected in part.outputs.items():
        whole = full.outputs[name].value.reshape(shapes[name])
        torch.testing.assert_close(
            expected.value, part.rows_of(name, whole), rtol=1e-12, atol=1e-13
        )
        assert expected.value.shape[0] * expected.value.shape[1] < whole.shape[0] * 6 * 300
    assert {0, 299} <= set(part.sample.rows.tolist())
    assert {0, 309} <= set(part.sample.keys.tolist())


def test_sampled_reference_knows_the_plain_error_of_the_dtype(monkeypatch):
    problem = Problem.parse("T=300,H=2,d_h=16,bfloat16")
    inputs = make_inputs(problem, "cpu")
    full = reference(inputs, problem)
    monkeypatch.setattr(sample, "MAX_PAIRS", 1 << 14)
    part = reference(inputs, problem)
    for name in ("out", "dq", "dk", "dv"):
        full_error, part_error = (
            float((r.outputs[name].naive - r.outputs[name].value).norm())
            / float(r.outputs[name].value.norm())
            for r in (full, part)
        )
        assert 1e-3 < part_error < 3e-2
        assert 0.5 < part_error / full_error < 2.0


def test_plain_error_shrinks_with_the_dtype():
    errors = []
    for dtype in ("bfloat16", "float16", "float32"):
        problem = Problem.parse(f"T=65,H=2,d_h=32,causal,{dtype}")
        found = reference(make_inputs(problem, "cpu"), problem).outputs["dq"]
        errors.append(float((found.naive - found.value).abs().max()))
    assert errors[0] > 4 * errors[1] > 400 * errors[2] > 0


def test_reference_of_an_empty_problem_has_empty_outputs():
    for B, T_q, T_kv in ((0, 4, 4), (1, 0, 4), (1, 4, 0), (1, 0, 0)):
        problem = Problem(B=B, T_q=T_q, T_kv=T_kv, H=2, d_h=8)
        found = reference(make_inputs(problem, "cpu"), problem)
        assert found.outputs["out"].value.shape == (2 * B, T_q, 8)
        assert not found.outputs["out"].value.any()
        assert bool((found.outputs["lse"].value == -torch.inf).all()) or T_kv
        assert not found.outputs["dk"].value.any()
