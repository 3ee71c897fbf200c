"""Problems that are more than softmax attention: their names, records and refusals."""

from __future__ import annotations

import json

import pytest

from impls.interface.around import Around
from impls.interface.attention import reasons_against
from impls.interface.layer_shape import Latent, LayerShape
from impls.interface.problem import Problem
from impls.interface.registry import implementations

CORE = Problem(B=2, T_q=3, T_kv=8, H=4, H_kv=2, d_h=16, causal=True)
MLA = LayerShape(d_model=64, H=4, d_h=16, latent=Latent(d_c=32, d_R=8, d_v=16, d_c_q=24))
KINDS = [
    CORE,
    CORE.with_(operator="additive"),
    CORE.with_(around=Around("layer", LayerShape(d_model=64, H=4, H_kv=2))),
    CORE.with_(around=Around("block", LayerShape(d_model=64, H=4, H_kv=2), 256, 0.1)),
    CORE.with_(H_kv=1, d_h=40, d_v=32, around=Around("layer", MLA, is_absorbed=True)),
]


@pytest.mark.parametrize("problem", KINDS, ids=lambda p: p.id)
def test_a_problem_of_any_kind_survives_its_record(problem):
    assert Problem.from_json(json.loads(json.dumps(problem.to_json()))) == problem


def test_no_two_kinds_share_a_name_or_a_record():
    assert len({p.id for p in KINDS}) == len(KINDS)
    assert all(p.id.isascii() for p in KINDS)
    # What was measured before there were other kinds keeps its identity.
    assert "operator" not in CORE.to_json() and "around" not in CORE.to_json()
    assert Problem.parse("B=2,T=4,H=4,d_h=16,operator=linear").operator == "linear"


@pytest.mark.parametrize(
    ("part", "sizes", "told"),
    [
        ("core", {}, "part='core'"),
        ("block", {}, "d_ff=0"),
        ("layer", {"d_ff": 8}, "d_ff=8"),
        ("block", {"d_ff": 8, "dropout": 1.0}, "dropout=1.0"),
        ("layer", {"dropout": 0.1}, "belongs to a block"),
        ("layer", {"is_absorbed": True}, "latent"),
    ],
)
def test_a_part_without_its_sizes_is_refused(part, sizes, told):
    with pytest.raises(ValueError, match=told):
        Around(part, LayerShape(d_model=64, H=4), **sizes)


def test_an_operator_is_a_reason_against_whatever_computes_another():
    naive = implementations()["naive"]
    assert reasons_against(naive, KINDS[1], "cpu") == ["computes softmax attention, not additive"]
    assert reasons_against(naive, KINDS[2], "cpu") == []
