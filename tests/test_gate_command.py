"""`python -m results compare | gate | accept | history | spread` as they are typed."""

from __future__ import annotations

import os
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.fake_launches import NAMES, noisy, write_side
from tests.gate_bench import Bench, slower


@pytest.fixture
def bench(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    return Bench(tmp_path, capsys)


def test_no_change_passes(bench):
    base, head = bench.write(noisy(25)), bench.write(noisy(25, seed=1))
    assert bench.call("gate", base, head) == 0
    assert bench.last == "PASSED: 3 unchanged"


def test_a_regression_names_that_cell_alone_in_eighty_columns(bench):
    base, head = bench.write(noisy(25)), bench.write(slower(1.5))
    assert bench.call("gate", base, head) == 1
    lines = bench.out.splitlines()
    assert bench.last.startswith("FAILED: 1 regressed, 2 unchanged: chunked B=1,T=63,")
    assert max(map(len, lines[:-1])) <= 80
    assert "1 regressed" in lines and not any(line.startswith("naive") for line in lines)
    assert "note: launches a side: 5 screen, 20 confirm" in lines
    assert bench.call("compare", base, head) == 0
    assert "1 regressed" in bench.out


def test_json_is_the_contract_for_child_processes(bench):
    base, head = bench.write(noisy(25)), bench.write(slower(1.5), commit="7654321")
    told = bench.json("gate", base, head)
    assert (told["command"], told["exit_code"], told["compared"]) == ("gate", 1, 3)
    assert told["head"] == {"name": head, "launches": 25, "commit": "7654321"}
    assert told["counts"] == {"regressed": 1, "unchanged": 2} and told["suspects"] == []
    first = told["cells"][0]
    assert (first["implementation"], first["clock"], first["fails"]) == (
        "chunked",
        "cpu_time",
        True,
    )
    assert first["ratio"] == pytest.approx(1.5, rel=0.02) and first["p"] < 1e-6
    assert len(told["cells"]) == 3 and told["suite"] is None and told["cumulative"] is None


def test_a_screen_names_suspects_and_the_next_call_judges_them(bench):
    """What `ab` does: five launches of everything, then twenty of the suspects alone."""
    base, head = noisy(25), slower(1.2)
    screens = bench.write(base[:5]), bench.write(head[:5])
    told = bench.json("gate", *screens, "--screen-only")
    assert told["exit_code"] == 0
    assert [name.split(" ")[0] for name in told["suspects"]] == ["chunked"]
    more = bench.write(base[5:, 1:2], NAMES[1:2]), bench.write(head[5:, 1:2], NAMES[1:2])
    told = bench.json("gate", f"{screens[0]},{more[0]}", f"{screens[1]},{more[1]}")
    assert told["exit_code"] == 1 and told["counts"] == {"regressed": 1, "unchanged": 2}
    assert told["cells"][0]["base_launches"] == 20


def test_what_a_screen_leaves_unconfirmed_passes_by_name_and_not_under_strict(bench):
    """As of `ab` whose time limit left no room: green, and nobody had seen the suspect."""
    screens = bench.write(noisy(25)[:5]), bench.write(slower(1.3)[:5])
    assert bench.call("gate", *screens, "--screen-only", "--github") == 0
    (last,) = [line for line in bench.out.splitlines() if line.startswith("PASSED: ")]
    assert last.startswith("PASSED: 1 inconclusive, 2 unchanged: chunked B=1,T=63,")
    assert last.endswith("seems slower and was not confirmed: measure it in fresh launches")
    (warned,) = [line for line in bench.out.splitlines() if line.startswith("::")]
    assert warned.startswith("::warning title=not confirmed::chunked B=1,T=63,")
    assert bench.call("gate", *screens, "--screen-only", "--strict") == 3


def test_a_folder_of_runs_is_a_side(bench):
    times = slower(1.5)
    for launch in range(25):
        write_side(bench.folder / "head", times[launch : launch + 1], day=1, commit=f"h{launch}")
    base = bench.write(noisy(25))
    assert bench.call("gate", base, bench.folder / "head") == 1


def test_too_few_launches_are_refused_with_how_many_would_do(bench):
    base, head = bench.write(noisy(1)), bench.write(3 * noisy(1))
    assert bench.call("gate", base, head) == 2
    assert bench.last.startswith("REFUSED: 1 launch a side cannot show a regression")
    assert bench.last.endswith("6 launches a side would do")
    assert bench.call("compare", base, head) == 0
    assert "1 launch" in bench.out and "3.00x" in bench.out


def test_missing_new_and_nothing_have_their_own_codes(bench):
    both, one = bench.write(noisy(25)), bench.write(noisy(25, 2), NAMES[:2])
    assert bench.call("gate", both, one) == 4
    assert "1 missing" in bench.last and "sdpa_flash" in bench.last
    assert bench.call("gate", both, one, "--allow-missing") == 0
    assert bench.call("gate", one, both) == 0
    assert bench.last == "PASSED: 1 new, 2 unchanged"
    nothing = bench.write(np.full((1, 3), np.nan))
    assert bench.call("gate", both, nothing) == 5
    assert "nothing was compared" in bench.last and "xdist" in bench.last


def test_where_every_row_is_flagged_that_is_why_nothing_was_compared(bench):
    def contend(lines):
        return [x | {"flags": ["contended"]} for x in lines]

    base, head = bench.write(noisy(25)), bench.write(noisy(25), alter=contend)
    assert bench.call("gate", base, head) == 5
    assert "head: 25 contended" in bench.last and "xdist" not in bench.last


def test_cells_with_one_reason_are_one_line_and_all_names_each(bench):
    names = [f"naive T={T},H=2,d_h=8" for T in range(10, 17)]
    base, head = bench.write(np.ones((1, 7)), names), bench.write(np.ones((1, 2)), names[:2])
    assert bench.call("compare", base, head) == 0
    assert bench.out.count("not in head") == 1 and "\n5 missing\n" in bench.out
    assert "; 2 more, --all names each)" in " ".join(bench.out.split())
    assert [bench.out.count(f"T={T}") for T in range(12, 17)] == [1, 1, 1, 0, 0]
    assert bench.last.startswith("NOTHING JUDGED: 5 missing, 2 inconclusive: 1 launch a side ")
    bench.call("compare", base, head, "--all")
    assert [bench.out.count(f"T={T}") for T in range(12, 17)] == [1] * 5


def test_sides_without_a_common_cell_say_so_and_what_each_has(bench):
    base, head = bench.write(noisy(1)[:, :2], NAMES[:2]), bench.write(noisy(1)[:, 2:], NAMES[2:])
    assert bench.call("compare", base, head) == 5
    told = " ".join(bench.out.split())
    assert "the sides have no cell in common: base has 2, first " in told and "xdist" not in told
    assert "head has 1, first sdpa_flash " in told


def test_another_machine_is_refused_by_field_and_allowed_by_name(bench):
    def other(header):
        header["environment"]["torch"] = "2.10.0"

    base, head = bench.write(noisy(25)), bench.write(slower(1.5), change=other, machine_key="x")
    assert bench.call("gate", base, head) == 4
    assert 'torch "2.13.0+cpu" → "2.10.0"' in bench.last and "--allow-mismatch torch" in bench.last
    assert bench.call("gate", base, head, "--allow-mismatch", "torch") == 1


def test_a_doubtful_cell_fails_only_when_strict(bench):
    base, head = noisy(25), noisy(25, seed=1)
    base[:, 1] *= np.exp(0.4 * np.random.default_rng(0).standard_normal(25))
    names = bench.write(base), bench.write(head)
    assert bench.call("gate", *names) == 0 and "1 inconclusive" in bench.last
    assert bench.call("gate", *names, "--strict") == 3
    assert bench.last.startswith("INCONCLUSIVE: ")


def test_rules_that_are_no_file_are_a_mistake_of_usage(bench):
    names, path = [bench.write(noisy(1)) for _ in range(2)], bench.folder / "nosuch.toml"
    assert bench.call("compare", *names, "--rules", path) == 2
    assert f"{path}: no such file: --rules takes one like gate.toml" in bench.err
    assert bench.call("compare", *names, "--rules", bench.folder) == 2


def test_what_was_typed_wrongly_is_told_with_what_would_do(bench):
    base = bench.write(noisy(25))
    assert bench.call("gate", base) == 2
    assert "1 side given: name two, BASE HEAD" in bench.err
    assert bench.call("gate", "nosuch", base) == 2 and "no run" in bench.err
    assert bench.call("gate", base, base, "--impl-base", "naive") == 2
    assert bench.call("gate", f"{base},{base}", base) == 2 and "given twice" in bench.err
    other = bench.write(noisy(25))
    rules = bench.folder / "gate.toml"
    rules.write_text('[defaults]\nthreshold = "200%"\n', encoding="utf-8")
    assert bench.call("gate", base, other, "--rules", rules) == 2
    assert '"+200%"' in bench.err


@pytest.mark.parametrize("command", ["gate", "compare"])
def test_a_run_is_not_compared_with_itself(bench, command):
    """By whatever name: where a script names one run twice, every gate is green."""
    base, other = bench.write(noisy(25)), bench.write(noisy(25, seed=1))
    (folder,) = bench.store.glob(f"*/{other}")
    for sides in ((other, "latest"), (f"{base},{other}", other), (other, folder)):
        assert bench.call(command, *sides) == 2, sides
        assert f"{other} is on both sides, where nothing can differ" in bench.err
    one_alone = ("--impl-base", "naive", "--impl-head", "naive")
    assert bench.call(command, base, base, *one_alone) == 2 and "on both sides" in bench.err
    two = ("--impl-base", "naive", "--impl-head", "chunked")
    assert bench.call(command, base, base, *two) in (0, 1)


def test_outputs_for_ci(bench):
    """JUnit and Markdown go to files, and error lines between the table and the last line."""
    names = [f"naive T={n},H=1,d_h=8" for n in range(1, 31)]
    base, head = bench.write(noisy(8, 30), names), bench.write(2 * noisy(8, 30, seed=1), names)
    files = bench.folder / "j.xml", bench.folder / "c.md"
    code = bench.call("gate", base, head, "--github", "--junit", files[0], "--markdown", files[1])
    assert code == 1
    errors = [line for line in bench.out.splitlines() if line.startswith("::error ")]
    assert len(errors) == 10 and "and 22 more" in errors[-1]
    suite = ElementTree.parse(files[0]).getroot()
    # Each cell, and the suite as a whole.
    assert (suite.get("tests"), suite.get("failures")) == ("31", "31")
    text = files[1].read_text(encoding="utf-8")
    assert text.startswith("### FAILED: 30 regressed") and text.count("| `naive") == 30
    told = bench.json("gate", base, head, "--github")
    assert len(told["cells"]) == 30 and bench.err.count("::error ") == 10


def test_junit_tells_skipped_broken_and_missing_apart(bench):
    def crash(lines):
        status = {"status": "crashed", "timing": None, "check": None, "reasons": ["\x1b[0m died"]}
        return [x | status if x["implementation"] == "chunked" else x for x in lines]

    base = noisy(25)
    base[:, 0] *= np.exp(0.4 * np.random.default_rng(0).standard_normal(25))
    names = bench.write(base), bench.write(noisy(25, 2, seed=1), NAMES[:2], alter=crash)
    assert bench.call("gate", *names, "--junit", bench.folder / "j.xml") == 5
    suite = ElementTree.parse(bench.folder / "j.xml").getroot()
    counted = [suite.get(name) for name in ("tests", "failures", "errors", "skipped")]
    assert counted == ["3", "1", "1", "1"]


def test_history_tells_when_and_between_which_commits(bench):
    for night in range(12):
        times = noisy(1, seed=night, noise=0.003)
        times[:, 1] *= 1.2 if night >= 8 else 1.0
        bench.write(times, commit=f"{night:07d}")
    assert bench.call("history") == 0
    assert bench.last == "3 series of up to 12 runs: 1 event, 1 alert"
    assert "slower, 1 cell, commits 0000007..0000008" in bench.out
    assert bench.call("history", "--alert") == 1
    assert bench.call("history", "--alert", "--within", "3") == 0
    assert bench.call("history", "--alert", "--cells", "naive *") == 0
    told = bench.json("history", "--alert")
    assert told["events"][0]["steps"][0]["ratio"] == pytest.approx(1.2, rel=0.02)
    assert bench.call("history", "--cells", "nosuch *") == 5


def test_spread_tells_what_can_be_seen_and_gates_use_it(bench):
    times = noisy(20)
    times[:, 1] *= np.where(np.arange(20) % 3 == 0, 1.6, 1.0)
    bench.write(times)
    told = bench.json("spread", "latest", "--write")
    first = told["cells"][0]
    assert first["name"].startswith("chunked") and first["is_two_peaked"]
    assert first["floor"] > 1.1 > 1.03 > told["cells"][-1]["floor"]
    # 5 % in a cell that varies by 22 % between launches is not named.
    base, head = bench.write(noisy(25)), bench.write(slower(1.08))
    assert bench.call("gate", base, head) == 0
    assert bench.call("spread", bench.write(noisy(1))) == 5
    assert "two launches or more" in bench.last


def test_one_column_has_one_unit(bench):
    """Case A13, pytest-benchmark#277: 1.5 s above 500 ms was read as the shorter one."""

    def unbound(lines):
        return [line | {"bound": None} for line in lines]

    scales = 1e3 * np.array([12.3e-9, 1.5e-3, 2.1])
    base = bench.write(noisy(25) * scales, alter=unbound)
    head = bench.write(2 * noisy(25, seed=1) * scales, alter=unbound)
    assert bench.call("gate", base, head) == 1
    lines = bench.out.splitlines()
    assert next(line for line in lines if "base " in line and "change" in line).split()[1:3] == [
        "base",
        "ms",
    ]
    shown = {line.split()[0]: line for line in lines if line.startswith(("naive", "sdpa_flash"))}
    assert " 0.0000123 " in shown["naive"] and " 2107 " in shown["sdpa_flash"]


def test_metrics_are_told_as_open_metrics(bench):
    base, head = bench.write(noisy(25)), bench.write(slower(1.5))
    file = bench.folder / "metrics.txt"
    assert bench.call("gate", base, head, "--metrics", file) == 1
    lines = file.read_text(encoding="utf-8").splitlines()
    assert lines[-1] == "# EOF"
    assert 'attnbench_cells{verdict="regressed"} 1' in lines
    assert 'attnbench_cells{verdict="broken"} 0' in lines
    (ratio,) = [line for line in lines if line.startswith('attnbench_ratio{cell="chunked ')]
    assert float(ratio.rsplit(" ", 1)[1]) == pytest.approx(1.5, rel=0.02)
    assert sum(line.startswith("attnbench_time_seconds{") for line in lines) == 3


@pytest.mark.parametrize(("factor", "code"), [(1.0, 0), (1.3, 1)])
@pytest.mark.parametrize("form", [(), ("--json",), ("--all",)], ids=["text", "json", "all"])
def test_a_reader_that_has_seen_enough_changes_no_verdict(bench, monkeypatch, factor, code, form):
    """`gate … | head -1` under bash's pipefail: neither is 0 a regression nor 1 a pass."""
    base, head = bench.write(noisy(25)), bench.write(slower(factor))
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", encoding="utf-8") as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        found = bench.call("gate", base, head, *form)
        monkeypatch.undo()
    assert found == code
