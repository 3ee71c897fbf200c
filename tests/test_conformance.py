"""The conformance run finds nothing wrong with what is right, and every planted bug."""

import math
from functools import cache

import pytest
import torch

from impls.interface.attention import Capabilities, Implementation, Unsupported
from impls.interface.conformance import Conformance, conformance
from impls.interface.conformance_cases import ASKS, cases
from impls.interface.conformance_values import MASKS, VALUES
from impls.interface.ran import profiled_names
from impls.interface.sequences import each_alone


def attention(q, k, v, causal=False, window=None, mask=None, scale=None, softcap=None, **plant):
    """Attention by the definition → (out, lse); `plant` names a bug to put in."""
    (_, H, T_q, d_h), (_, H_kv, T_kv, _) = q.shape, k.shape
    group = H // H_kv
    if plant.get("tiled_heads"):
        k, v = k.repeat(1, group, 1, 1), v.repeat(1, group, 1, 1)
    else:
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    if plant.get("last_column_ignored"):
        q = torch.cat([q[..., :-1], torch.zeros_like(q[..., -1:])], -1)
    scores = q.float() @ k.float().mT
    scores = scores * (1 / math.sqrt(d_h) if scale is None else scale)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if causal:
        offset = 0 if plant.get("top_left") else T_kv - T_q
        i, j = torch.arange(T_q)[:, None], torch.arange(T_kv)
        mask = j <= i + offset
        if window is not None:
            mask = mask & (j > i + offset - window)
        if plant.get("inverted_causal"):
            mask = ~mask
    elif mask is not None and mask.dtype == torch.bool and plant.get("inverted_mask"):
        mask = ~mask
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, -torch.inf)
    elif mask is not None:
        hidden = mask == -torch.inf
        scores = (scores + mask.masked_fill(hidden, 0.0)).masked_fill(hidden, -torch.inf)
    if plant.get("tail_leaks") and T_kv % 16:
        # Keys of zeros up to the next multiple of 16 take part in the softmax.
        tail = torch.zeros(*scores.shape[:-1], -T_kv % 16)
        lse = torch.logsumexp(torch.cat([scores, tail], -1), -1)
    else:
        lse = torch.logsumexp(scores, -1)
    dead = (lse == -torch.inf)[..., None]
    if plant.get("nan_gradients"):
        # What hides the NaN of the output does not hide it in the gradient.
        return scores.softmax(-1).to(v.dtype).matmul(v).nan_to_num(0.0), lse
    weights = torch.exp(scores.masked_fill(dead, 0.0) - lse[..., None].masked_fill(dead, 0.0))
    out = (weights.to(v.dtype) @ v).masked_fill(dead, 0.0)
    if plant.get("values_ignored"):
        out = weights.sum(-1, keepdim=True).to(v.dtype).expand(*out.shape).clone()
    if plant.get("unwritten_rows") and T_q > 16:
        written, out = out, torch.empty_like(out)
        out[:, :, : T_q // 16 * 16] = written[:, :, : T_q // 16 * 16]
    return out, lse / math.log(2) if plant.get("base_2") else lse


def planted(capabilities=None, runs=(), **plant):
    def forward(q, k, v, **arguments):
        return attention(q, k, v, **arguments, **plant)[0]

    def forward_with_lse(q, k, v, **arguments):
        return attention(q, k, v, **arguments, **plant)

    return Implementation(
        "planted",
        forward,
        "a test's own",
        capabilities=capabilities or Capabilities(),
        forward_with_lse=forward_with_lse,
        prepare_lengths=each_alone(forward),
        runs=runs,
    )


# Gradients take most of the time: left out where they are not the subject.
FORWARD = Capabilities(passes=("forward",))


def wrong_of(implementation):
    return conformance(implementation, "cpu").of("wrong")


@cache
def wrong_with(bug):
    return wrong_of(planted(**{bug: True}))


def test_nothing_is_wrong_with_the_definition_and_every_check_is_tried():
    found = conformance(planted(), "cpu")
    assert found.of("wrong") == []
    assert found.ok
    assert found.of("unsupported") == []
    assert len(found.of("passed")) > 500


@pytest.mark.parametrize(
    ("bug", "shown_by"),
    [
        ("inverted_mask", "mask: "),
        ("inverted_causal", "core: "),
        ("top_left", "causal T_q ≠ T_kv: "),
        ("tiled_heads", "grouped heads: "),
        # What is wrong in most checks is explained in most, which takes longest.
        pytest.param("last_column_ignored", "head size: ", marks=pytest.mark.slow),
        ("tail_leaks", "awkward T: "),
        pytest.param("values_ignored", "core: ", marks=pytest.mark.slow),
    ],
)
def test_a_planted_bug_shows_in_output_and_gradients(bug, shown_by):
    wrong = wrong_with(bug)
    for ask in ("output", "gradients"):
        assert any(o.ask == ask and o.case.startswith(shown_by) for o in wrong), ask


def test_heads_are_tiled_in_nothing_but_grouped_problems():
    wrong = wrong_with("tiled_heads")
    assert wrong and all("H_kv" in outcome.case for outcome in wrong)


def test_an_lse_in_base_2_is_wrong_and_its_output_right():
    wrong = wrong_of(planted(FORWARD, base_2=True))
    assert wrong
    assert {outcome.ask for outcome in wrong} == {"lse"}


def test_nan_gradients_behind_a_finite_output_are_wrong():
    """Case M03, brevitas PR#1591: nan_to_num after the softmax mends the forward alone."""
    found = conformance(planted(nan_gradients=True), "cpu")
    wrong = found.of("wrong")
    assert {outcome.ask for outcome in wrong} == {"gradients"}
    assert any("dead rows" in outcome.case for outcome in wrong)
    assert any("not finite" in reason for outcome in wrong for reason in outcome.reasons)


def test_rows_that_nobody_wrote_are_wrong():
    wrong = wrong_of(planted(FORWARD, unwritten_rows=True))
    poisoned = [o for o in wrong if o.case.startswith("every element written")]
    assert any("not finite" in reason for outcome in poisoned for reason in outcome.reasons)


def test_a_silent_fallback_is_wrong():
    wrong = wrong_of(planted(FORWARD, runs=("my_flash_kernel",)))
    assert [(o.case, o.ask) for o in wrong] == [("silent fallback", "profile")]
    assert "none of my_flash_kernel ran" in wrong[0].reasons[0]


def test_what_ran_is_among_the_names_of_a_profile():
    found = conformance(planted(FORWARD, runs=("aten::bmm",)), "cpu")
    assert found.ok
    assert found.properties["ran"] == "aten::bmm"
    assert "aten::bmm" in profiled_names(lambda: torch.ones(2, 3, 3) @ torch.ones(2, 3, 3), "cpu")


def test_a_result_that_does_not_depend_on_an_input_is_wrong():
    remembered = {}

    def forward(q, k, v, **arguments):
        key = (q.shape, v.shape, q.dtype, *map(str, arguments.values()))
        if key not in remembered:
            remembered[key] = attention(q, k, v, **arguments)[0].detach()
        return remembered[key]

    stale = Implementation("stale", forward, "", Capabilities(passes=("forward",), needs=()))
    wrong = wrong_of(stale)
    assert any("other seed" in outcome.case for outcome in wrong)


def test_an_exception_is_wrong_and_a_refusal_is_not():
    def raising(q, k, v, **arguments):
        if arguments["causal"]:
            raise RuntimeError("no kernel image\nand more")
        raise Unsupported("not today")

    found = conformance(Implementation("raising", raising, "", Capabilities(needs=())), "cpu")
    assert {o.reasons for o in found.of("wrong")} == {("raised RuntimeError: no kernel image",)}
    assert any(o.reasons == ("not today",) for o in found.of("unsupported"))
    assert not found.ok


def test_an_implementation_that_refuses_everything_is_not_proven():
    def refusing(q, k, v, **arguments):
        raise Unsupported("not today")

    found = conformance(Implementation("refusing", refusing, ""), "cpu")
    assert found.of("wrong") == []
    assert not found.ok


def test_writing_into_the_inputs_is_wrong():
    def careless(q, k, v, **arguments):
        out = attention(q, k, v, **arguments)[0]
        with torch.no_grad():
            k.zero_()
        return out

    implementation = Implementation(
        "careless", careless, "", Capabilities(passes=("forward",), needs=())
    )
    wrong = wrong_of(implementation)
    assert {outcome.reasons for outcome in wrong} == {("it wrote into its inputs: k",)}
    # The inputs are shared by all implementations: they are as they were.
    assert conformance(planted(FORWARD), "cpu").ok


def test_reading_masked_garbage_is_a_property_and_no_failure():
    """Case M08, pytorch#101967: 0 · NaN is NaN, and caches have tails nobody wrote."""

    def careful(q, k, v, **arguments):
        v = v.masked_fill(v.isnan(), 0.0)
        return attention(q, k.masked_fill(k.isnan(), 0.0), v, **arguments)[0]

    assert conformance(planted(FORWARD), "cpu").properties["masked_garbage_safe"] == "no"
    can = Capabilities(passes=("forward",), needs=("mask", "scale", "softcap"))
    safe = Implementation("careful", careful, "", can)
    found = conformance(safe, "cpu")
    assert found.properties["masked_garbage_safe"] == "yes"
    assert found.properties["bitwise_repeatable"] == "yes"


def test_unsupported_checks_are_listed_with_their_reasons():
    can = Capabilities(passes=("forward",), needs=(), gqa=False, dtypes=("float32",))
    found = conformance(planted(can), "cpu")
    assert found.ok
    in_memory = [o for o in found.outcomes if o.case.startswith("other values in the same memory")]
    assert len(found.of("unsupported")) + len(found.of("passed")) - len(in_memory) == sum(
        len(case.asks) for case in cases()
    )
    reasons = {reason for o in found.of("unsupported") for reason in o.reasons}
    assert {"backward is not supported", "mask is not supported"} <= reasons


def test_a_compiled_implementation_is_prepared_once_for_each_problem_and_asked_sixty_checks():
    prepared = []

    def prepare(problem, device):
        prepared.append(problem)

        def forward(q, k, v):
            return attention(q, k, v, causal=problem.causal, window=problem.window)[0]

        return forward

    compiling = Implementation(
        "compiling",
        planted().forward,
        "",
        Capabilities(passes=("forward",), needs=()),
        prepare=prepare,
        needs_compiler=True,
    )
    found = conformance(compiling, "cpu")
    assert found.ok
    assert len(found.of("passed")) >= 60
    # The last one again, for the properties.
    assert len(prepared) <= len(set(prepared)) + 1


def test_a_conformance_run_survives_json():
    can = Capabilities(passes=("forward",), needs=())
    found = conformance(planted(can, base_2=True), "cpu")
    assert Conformance.from_json(found.to_json()).of("unsupported") == found.of("unsupported")


def test_cases_have_names_of_their_own_and_words_that_exist():
    every = cases()
    assert len({case.id for case in every}) == len(every)
    assert {case.values for case in every} == set(VALUES)
    assert {case.mask for case in every if case.mask} == set(MASKS)
    assert all(set(case.asks) <= set(ASKS) for case in every)


def test_cases_cover_every_way_causal_can_be_aligned():
    causal = [case.problem for case in cases() if case.problem.causal]
    assert {(p.T_q > p.T_kv) - (p.T_q < p.T_kv) for p in causal} == {-1, 0, 1}
