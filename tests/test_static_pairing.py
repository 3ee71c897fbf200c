"""Which profiles meet: the same key, a changed block, another compiler, and what is left."""

import pytest

from results.reading import Place
from results.static_baseline import accepted
from results.static_gate import counts, exit_code, judge
from results.static_profile import StaticProfile, read_static
from tests.fake_profiles import profile


def read(**changes) -> StaticProfile:
    return read_static(profile(**changes), Place("cells.jsonl", 1))


def verdict(before: StaticProfile, after: StaticProfile):
    """The one judgement where both meet."""
    (judged,) = judge([after], [accepted(before)])
    return judged


def test_a_changed_block_meets_the_old_one_and_never_passes():
    """Halved warps change the key: the old profile must not be just missing, the new just new."""
    halved = {"block__num_warps": 4, "resources__warps": 4, "resources__registers": 255}
    judged = verdict(read(), read(**halved, resources__spill_stores=48))
    assert (judged.verdict, judged.code) == ("regressed", 1)
    assert judged.reasons[:2] == ("block num_warps 8 → 4", "spill stores 0 → 48")
    # nothing that holds between blocks is worse, yet it was not accepted
    judged = verdict(read(), read(**halved))
    assert (judged.verdict, judged.code) == ("new", 4)
    assert judged.reasons[0] == "block num_warps 8 → 4"
    # a doubled block that no longer fits
    doubled = {"block__BLOCK_KV": 256, "status": "error", "reasons": ["327680 of 232448 bytes"]}
    judged = verdict(read(), read(**doubled, resources=None))
    assert (judged.verdict, judged.code) == ("regressed", 1)
    assert judged.reasons == ("block BLOCK_KV 128 → 256", "error: 327680 of 232448 bytes")


@pytest.mark.parametrize(
    "worse",
    [
        {"bound__overlap_percent": 79.0},
        {"hot_loop__spill_stores": 1},
        {"resources__spill_load_bytes": 4},
        {"hot_loop__mix__select": 1},
    ],
)
def test_a_changed_block_is_held_to_spills_bound_and_promises(worse):
    assert verdict(read(), read(**worse, block__num_warps=4)).verdict == "regressed"


def test_a_changed_constant_of_the_launcher_meets_the_old_one_too():
    """A head padded instead of split is another subject, and not just one gone, one come."""
    padded = {"constants__D_H_A": 256, "block__num_warps": 4}
    before = read(constants__D_H_A=128)
    judged = verdict(before, read(**padded, resources__spill_loads=1))
    assert (judged.verdict, judged.code) == ("regressed", 1)
    assert judged.reasons[:2] == (
        "constants D_H_A 128 → 256, block num_warps 8 → 4",
        "spill loads 0 → 1",
    )
    # of two variants the one that is the same subject is met
    other = read(constants__D_H_A=128, constants__IS_CAUSAL=False)
    run = [read(constants__D_H_A=128, block__num_warps=4), other]
    judged = judge(run, [accepted(before), accepted(other)])
    assert [(j.verdict, j.reasons[:1]) for j in judged] == [
        ("new", ("block num_warps 8 → 4",)),
        ("unchanged", ()),
    ]


def test_several_blocks_of_one_subject_are_not_guessed_at():
    base = [accepted(read(block__BLOCK_Q=n, is_default=False)) for n in (64, 128)]
    run = [read(block__BLOCK_Q=n, is_default=False) for n in (128, 256)]
    assert counts(judge(run, base)) == {"missing": 1, "new": 1, "unchanged": 1}
    one = [accepted(read(block__BLOCK_Q=64))]
    run = [read(block__BLOCK_Q=n) for n in (128, 256)]
    assert counts(judge(run, one)) == {"missing": 1, "new": 2}


def test_a_profile_that_is_gone_is_missing():
    judged = judge([read()], [accepted(read()), accepted(read(d_h=64))])
    assert [(j.verdict, j.of.d_h) for j in judged] == [("missing", 64), ("unchanged", 128)]
    assert exit_code(judged) == 4


def test_an_architecture_that_is_gone_is_missing_whatever_compiled_it():
    """sm_100 has a ptxas of its own: with it the whole toolchain leaves the run."""
    base = [accepted(read()), accepted(read(arch="sm_100", ptxas="13.1.80"))]
    assert counts(judge([read()], base)) == {"missing": 1, "unchanged": 1}


@pytest.mark.parametrize(
    ("compiler", "said"),
    [
        ({"triton": "3.8.0"}, "another compiler, triton 3.7.1 → 3.8.0"),
        ({"ptxas": "13.1.80"}, "another compiler, ptxas 12.8.93 → 13.1.80"),
    ],
)
def test_another_compiler_is_incomparable_with_the_differences_told(compiler, said):
    judged = verdict(read(), read(**compiler, resources__registers=240))
    assert (judged.verdict, judged.code) == ("incomparable", 4)
    assert judged.reasons == (said, "registers 255 → 240")
    # what holds under any compiler is held
    for worse in ({"bound__overlap_percent": 99.0}, {"hot_loop__spill_loads": 1}):
        assert verdict(read(), read(**compiler, **worse)).verdict == "regressed"
    assert verdict(read(), read(**compiler, resources__spill_stores=9)).verdict == "incomparable"


def test_of_several_accepted_compilers_the_runs_own_counts():
    base = [
        accepted(read(triton="3.6.0", resources__registers=250)),
        accepted(read()),
        accepted(read(ptxas="13.1.80", resources__registers=251)),
    ]
    for run in (read(), read(triton="3.6.0", resources__registers=250)):
        assert counts(judge([run], base)) == {"unchanged": 1}
    other = judge([read(triton="3.8.0")], base)
    assert counts(other) == {"incomparable": 1}
