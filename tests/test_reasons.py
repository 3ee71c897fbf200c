"""What a declared limit refuses: each one alone, and nothing beside it."""

import pytest

from impls.interface.attention import Capabilities, Implementation, reasons_against
from impls.interface.problem import Problem


def refused(text: str, **declared) -> list[str]:
    implementation = Implementation(
        name="picky",
        forward=lambda q, k, v, **_: v,
        summary="picky",
        capabilities=Capabilities(**declared),
    )
    return reasons_against(implementation, Problem.parse(text), "cpu")


def test_causal_is_refused_by_a_kernel_without_it_also_where_it_is_square():
    assert refused("T=7,H=2,d_h=8,causal", causal=False) == ["causal is not supported"]
    assert refused("T=7,H=2,d_h=8", causal=False) == []


@pytest.mark.parametrize("declared", [{"max_d_h": 40}, {"d_h_multiple_of": 8}])
@pytest.mark.parametrize("sizes", ["d_h=44,d_v=40", "d_h=40,d_v=44"])
def test_a_limit_of_d_h_holds_for_d_v_too(declared, sizes):
    assert refused("T=7,H=2,d_h=40,d_v=40", **declared) == []
    assert len(refused(f"T=7,H=2,{sizes}", **declared)) == 1
