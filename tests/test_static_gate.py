"""Every verdict on a static profile, from records made by hand."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results.reading import Place
from results.static_baseline import accepted
from results.static_gate import VERDICTS, Judgement, counts, exit_code, judge
from results.static_profile import StaticProfile, read_static
from tests.fake_profiles import loop, profile


def read(**changes) -> StaticProfile:
    return read_static(profile(**changes), Place("cells.jsonl", 1))


def verdict(before: StaticProfile | None, after: StaticProfile | None):
    """The one judgement on `after` where `before` was accepted."""
    (judged,) = judge([after] if after else [], [accepted(before)] if before else [])
    return judged


def test_the_same_code_is_unchanged():
    judged = verdict(read(), read(started_utc="2027-01-01T00:00:00Z", elapsed_s=99.0))
    assert (judged.verdict, judged.code, judged.reasons) == ("unchanged", 0, ())


# Every gated figure of the record, one step away: what the verdict is, and what is said.
STEPS = [
    ({"resources__registers": 256}, {"resources__registers": 254}, "registers 255 → 25"),
    ({"resources__stack_bytes": 8}, None, "stack 0 → 8 bytes"),
    ({"resources__spill_stores": 48}, None, "spill stores 0 → 48"),
    ({"resources__spill_loads": 2}, None, "spill loads 0 → 2"),
    ({"resources__spill_store_bytes": 4}, None, "spills stored 0 → 4 bytes"),
    ({"resources__spill_load_bytes": 4}, None, "spills loaded 0 → 4 bytes"),
    ({"resources__static_shared_bytes": 16}, None, "static shared memory 0 → 16 bytes"),
    (
        {"resources__dynamic_shared_bytes": 163841},
        {"resources__dynamic_shared_bytes": 163839},
        "shared memory 163840 → 1638",
    ),
    ({"resources__tensor_memory_columns": 1}, None, "tensor memory 0 → 1 columns"),
    ({"resources__scratch_bytes": 1}, None, "scratch 0 → 1 bytes"),
    ({"resources__warps": 12}, None, "warps 8 → 12"),
    ({"resources__warps": 7}, None, "warps 8 → 7"),
    ({"hot_loop__mix__mma": 15}, None, "mma in the hot loop 16 → 15"),
    ({"hot_loop__mix__mma": 17}, None, "mma in the hot loop 16 → 17"),
    ({"bound__overlap_percent": 99.4}, None, "bound 100 → 99.4 %"),
    ({"bound": None}, None, "bound 100 → none %"),
    ({"other_loops": [loop(select=64, alu=201)]}, {"other_loops": [loop(select=63)]}, "522 →"),
    ({"other_loops": []}, None, "instructions of other loops 522 → none"),
    ({"other_loops": [loop(select=64, alu=200)] * 2}, None, "522 → 522 + 522"),
    # every kind the record has, so that one that is added cannot slip through; "spill" is counted
    # as stores and loads
    *(
        ({f"hot_loop__mix__{kind}": n + 1}, {f"hot_loop__mix__{kind}": n - 1} if n else None, kind)
        for kind, n in loop()["mix"].items()
        if kind not in ("mma", "spill")
    ),
]


@pytest.mark.parametrize(("worse", "better", "said"), STEPS, ids=lambda v: str(v)[:48])
def test_one_step_of_any_gated_figure_is_seen(worse, better, said):
    judged = verdict(read(), read(**worse))
    assert (judged.verdict, judged.code) == ("regressed", 1)
    assert any(said in reason for reason in judged.reasons)
    if better is not None:
        judged = verdict(read(), read(**better))
        assert (judged.verdict, judged.code) == ("improved", 0)
        assert any(said in reason for reason in judged.reasons)


def test_one_longer_loop_among_shorter_ones_is_a_regression():
    before = read(other_loops=[loop(), loop(), loop()])
    loops = [loop(alu=80), loop(alu=91), loop(alu=80)]
    judged = verdict(before, read(other_loops=loops))
    assert judged.verdict == "regressed"
    assert judged.reasons == ("instructions of other loops 348 + 348 + 348 → 338 + 349 + 338",)


def test_half_a_point_of_the_bound_is_rounding():
    # 100.0 → 99.5 is half a point; the exact rule is for counts
    assert verdict(read(), read(bound__overlap_percent=99.5)).verdict == "unchanged"
    narrow = read(bound__overlap_percent=95.1)
    assert verdict(narrow, read(bound__overlap_percent=94.6)).verdict == "unchanged"
    assert verdict(narrow, read(bound__overlap_percent=94.5)).verdict == "regressed"
    assert verdict(narrow, read(bound__overlap_percent=95.7)).verdict == "improved"


def test_the_limiting_pipe_is_told_with_the_bound_and_not_alone():
    moved = {"bound__overlap_percent": 80.0, "bound__limited_by": "shared"}
    reasons = verdict(read(), read(**moved)).reasons
    assert reasons == ("bound 100 → 80 %", "limited by mma → shared")
    assert verdict(read(), read(bound__limited_by="shared")).verdict == "unchanged"


def test_a_mixed_change_is_a_regression_with_the_worse_told_first():
    judged = verdict(read(), read(resources__registers=224, resources__spill_stores=48))
    assert judged.verdict == "regressed"
    assert judged.reasons == ("spill stores 0 → 48", "registers 255 → 224")


def test_a_broken_promise_leads_the_reasons_of_a_regression():
    judged = verdict(read(), read(hot_loop=loop(select=64)))
    assert judged.verdict == "regressed"
    assert judged.reasons[0] == "the loop without masks has 64 selects"


def test_a_promise_that_was_broken_when_it_was_accepted_is_no_news():
    knowingly = read(hot_loop__mix__select=64, hot_loop__spill_stores=2)
    assert verdict(knowingly, knowingly).verdict == "unchanged"
    assert verdict(knowingly, read(hot_loop__mix__select=65)).verdict == "regressed"
    # another promise than the two is news
    judged = verdict(knowingly, read(hot_loop__mix__select=64, hot_loop__mix__mufu=200))
    assert "200 exponentials a thread for 64 elements" in judged.reasons


def test_a_refused_compilation_is_a_regression_with_the_compilers_words():
    refusal = {"status": "error", "reasons": ["out of shared memory\nsecond line"]}
    refusal |= {"resources": None, "hot_loop": None, "bound": None}
    for before in (read(), None):
        judged = verdict(before, read(**refusal))
        assert (judged.verdict, judged.code) == ("regressed", 1)
        assert judged.reasons == ("error: out of shared memory",)


@pytest.mark.parametrize("status", ["crashed", "timeout"])
def test_a_compiler_that_died_is_broken(status):
    lost = {"status": status, "reasons": ["SIGABRT"], "resources": None}
    judged = verdict(read(), read(**lost, hot_loop=None, bound=None))
    assert (judged.verdict, judged.code) == ("broken", 5)


def test_a_new_profile_is_new_and_held_to_its_promises():
    judged = verdict(None, read())
    assert (judged.verdict, judged.code, judged.reasons) == ("new", 4, ("not in the baseline",))
    judged = verdict(None, read(hot_loop__spill_stores=7))
    assert (judged.verdict, judged.code) == ("regressed", 1)
    assert judged.reasons[0] == "the hot loop spills (7 stores and 0 loads)"


def test_the_worst_comes_first():
    subjects = {d: read(d_h=d) for d in (16, 32, 40, 48, 64, 80, 96, 128)}
    changed = [
        read(d_h=128),
        read(d_h=96, resources__registers=254),
        read(d_h=80, resources__registers=256),
        read(d_h=64, bound__overlap_percent=70.0),
        read(d_h=48, hot_loop__mix__select=1),
        read(d_h=40, hot_loop__spill_stores=9),
        read(d_h=32, status="error", reasons=["no"], resources=None, hot_loop=None, bound=None),
    ]
    for order in itertools.islice(itertools.permutations(changed), 0, None, 797):
        judged = judge(order, [accepted(one) for one in subjects.values()])
        assert [(j.verdict, j.of.d_h) for j in judged] == [
            ("regressed", 32),
            ("regressed", 40),
            ("regressed", 48),
            ("regressed", 64),
            ("regressed", 80),
            ("missing", 16),
            ("improved", 96),
            ("unchanged", 128),
        ]


def test_nothing_compared_is_never_a_pass():
    assert exit_code([]) == 5
    assert judge([], []) == []


def test_a_regression_decides_whatever_else_could_not_be_compared():
    by_code = {c: [v for v in VERDICTS if VERDICTS[v] == c] for c in (1, 5, 4, 0)}
    for left in itertools.product(*by_code.values()):
        for code in by_code:
            judged = [Judgement(v, (), (), None, read()) for v in left]
            assert exit_code(judged) == exit_code(judged[::-1]) == code
            left = [v for v in left if VERDICTS[v] != code]


records = st.builds(
    dict,
    resources__registers=st.integers(16, 255),
    resources__spill_stores=st.integers(0, 3),
    hot_loop__spill_stores=st.integers(0, 1),
    hot_loop__mix__select=st.integers(0, 1),
    bound__overlap_percent=st.floats(0, 100),
    block__num_warps=st.sampled_from([4, 8]),
    triton=st.sampled_from(["3.6.0", "3.7.1"]),
    ptxas=st.sampled_from(["12.8.93", "13.1.80"]),
    d_h=st.sampled_from([64, 128]),
    is_default=st.booleans(),
)


@settings(max_examples=15, deadline=None)
@given(st.lists(records, max_size=5), st.lists(records, max_size=5))
def test_every_profile_has_one_verdict_and_passing_means_nothing_is_worse(before, after):
    base = {p.key: p for p in (read(**c) for c in before)}
    run = {p.key: p for p in (read(**c) for c in after)}
    judged = judge([*run.values()], [accepted(p) for p in base.values()])
    assert sorted(j.after.key for j in judged if j.after) == sorted(run)
    assert sum(counts(judged).values()) == len(judged)
    if run and exit_code(judged) == 0:
        for key, now in run.items():
            was, now = base[key].resources, now.resources
            assert was and now
            assert now.registers <= was.registers and now.spill_stores <= was.spill_stores
    again = judge([*run.values()], [accepted(p) for p in run.values()])
    assert counts(again) == ({"unchanged": len(run)} if run else {})
