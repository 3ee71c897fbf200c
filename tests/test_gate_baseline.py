"""What was accepted, and what the next launches are judged by: `gate --baseline` and `accept`."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tests.fake_launches import noisy
from tests.gate_bench import Bench, slower


@pytest.fixture
def bench(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    return Bench(tmp_path, capsys)


def test_the_first_run_has_no_baseline_and_passes(bench):
    """Case A01, pytest-benchmark#276: red on the first day, for nothing to compare with."""
    bench.write(noisy(20))
    assert bench.call("gate", "--baseline") == 0
    assert bench.last.startswith("no baseline for this machine key, cpu-0123456789ab: 3 cells")
    assert bench.call("gate", "--baseline", "--strict") == 4
    told = bench.json("gate", "--baseline")
    assert told["measured"] == 3
    assert told["conclusion"].endswith("none compared. To make one: python -m results accept")


def test_the_first_run_writes_what_a_job_keeps(bench):
    bench.write(noisy(20))
    names = ("--junit", "--markdown", "--metrics")
    files = {name: bench.folder / f"of{name}" for name in names}
    asked = [word for name, file in files.items() for word in (name, file)]
    assert bench.call("gate", "--baseline", *asked) == 0
    told = f"3 new: {bench.last}"
    assert files["--markdown"].read_text().startswith(f"### NOTHING JUDGED: {told}")
    (case,) = ElementTree.parse(files["--junit"]).iter("skipped")
    assert case.get("message") == f"NOTHING JUDGED: {told}"
    assert not list(ElementTree.parse(files["--junit"]).iter("error"))
    assert files["--metrics"].read_text()
    assert bench.call("gate", "--baseline", "--strict", *asked) == 4
    (case,) = ElementTree.parse(files["--junit"]).iter("error")
    assert str(case.get("message")).startswith(
        "NOT COMPARABLE: 3 new: nothing was compared: no base"
    )


@pytest.mark.parametrize(
    ("status", "who", "code"),
    [("wrong", "chunked", 1), ("crashed", "chunked", 5), ("unavailable", "all", 5)],
)
def test_the_first_run_fails_for_what_needs_no_baseline(bench, status, who, code):
    """A night's own code is left to this gate: a wrong kernel must not pass on the first day."""
    end = {"status": status, "reasons": ["told"]}
    if status != "wrong":
        end |= {"timing": None, "check": None}

    def alter(lines):
        return [x | end if who in ("all", x["implementation"]) else x for x in lines]

    bench.write(noisy(20), alter=alter)
    report = bench.folder / "junit.xml"
    assert bench.call("gate", "--baseline", "--junit", report) == code
    assert ("chunked B=1,T=63" in bench.last) == (who == "chunked"), bench.last
    assert report.exists() and bench.json("gate", "--baseline")["exit_code"] == code


def test_what_was_accepted_is_what_the_next_run_is_judged_by(bench):
    bench.write(noisy(20))
    assert bench.call("accept") == 0
    assert bench.last == "accepted 3 cells of 20 launches: the first of this machine"
    machine = bench.baselines / "cpu-0123456789ab"
    kept = sorted(p.relative_to(machine).as_posix() for p in machine.rglob("*.json"))
    assert kept == ["oldest/sequence_length.json", "sequence_length.json"]
    bench.write(noisy(20, seed=1))
    assert bench.call("gate", "--baseline") == 0
    assert bench.last.startswith("PASSED: 3 unchanged; against the oldest baseline: PASSED")
    bench.write(slower(1.3, launches=20))
    assert bench.call("gate", "--baseline") == 1
    assert "FAILED: 1 regressed, 2 unchanged: chunked" in bench.last
    file = machine / "sequence_length.json"
    assert bench.call("gate", file, "latest") == 1
    assert "hostname" not in file.read_text(encoding="utf-8")


def test_a_failing_run_never_becomes_the_baseline(bench):
    bench.write(noisy(20))
    bench.call("accept")
    file = bench.baselines / "cpu-0123456789ab" / "sequence_length.json"
    before = file.read_text(encoding="utf-8")
    bench.write(slower(1.3, launches=20))
    for _ in range(2):
        assert bench.call("accept") == 1
        assert bench.last.startswith("NOT ACCEPTED: FAILED: 1 regressed")
        assert bench.call("gate", "--baseline") == 1
    assert file.read_text(encoding="utf-8") == before
    # It is meant to cost that: a waiver says so, and its reason.
    rules = bench.folder / "gate.toml"
    rules.write_text(
        '[[waivers]]\npattern = "chunked *"\nreason = "exact now"\nexpires = 2999-01-01\n',
        encoding="utf-8",
    )
    assert bench.call("accept", "--rules", rules) == 0
    assert any(
        line.split()[:2] == ["regressed", "+29.9"] or line.startswith("regressed")
        for line in bench.out.splitlines()
    )
    assert bench.call("gate", "--baseline") == 1  # still slower than the oldest one
    assert "against the oldest baseline: FAILED: 1 regressed" in bench.last


def test_too_few_launches_are_told_once_with_what_to_type(bench):
    bench.write(noisy(1), change=typed("pytest suites --budget quick"))
    assert bench.call("accept") == 1
    assert bench.out.splitlines() == [bench.last]
    command = "python -m suites run --budget quick --launches 20"
    assert bench.last.endswith(f" has 1 launch, a baseline needs 20 (and 2 more): {command}")


def test_too_few_launches_beside_a_baseline_are_told_with_what_to_type(bench):
    bench.write(noisy(20))
    bench.call("accept")
    bench.write(noisy(1), change=typed("pytest suites --budget quick"))
    assert bench.call("gate", "--baseline") == 2
    assert "REFUSED: 20 and 1 launches cannot show a regression" in bench.last
    assert bench.last.endswith(". For 20: python -m suites run --budget quick --launches 20")


def typed(command):
    return lambda header: header.update(command=command)


@pytest.mark.parametrize(
    ("command", "again"),
    [
        (
            "pytest -p suites.supervisor.plugin -s /x/suites/bench_heads.py suites/bench_decode.py "
            "--impl 'my files/k.py:f' -k suites",
            "heads decode --impl 'my files/k.py:f' -k suites --launches 20",
        ),
        ("pytest ../attnbench/suites --store=/x/suites", "--store=/x/suites --launches 20"),
        (None, "--budget quick --launches 20, with the sweeps and options of this run"),
    ],
)
def test_what_was_measured_too_little_is_measured_again_as_it_was(bench, command, again):
    """Without its own --impl the next command would measure something else, for hours."""
    bench.write(noisy(2), change=typed(command))
    assert bench.call("accept") == 1 and bench.last.endswith(f": python -m suites run {again}")
    assert bench.call("gate", "--baseline") == 0
    needed = f"20 launches are needed, this has 2: python -m suites run {again}"
    assert bench.last.endswith(f"To make one: {needed}; then python -m results accept")


def test_a_run_in_doubt_is_not_accepted(bench):
    def flag(lines):
        return [x | {"flags": ["contended"]} if x["launch"] == 3 else x for x in lines]

    bench.write(noisy(21), alter=flag)
    assert bench.call("accept") == 1
    assert "1 contended" in bench.last and "--without-flagged" in bench.last
    assert bench.call("accept", "--without-flagged") == 0
    bench.write(noisy(19))
    assert bench.call("accept") == 1 and "has 19 launches, a baseline needs 20" in bench.out
    bench.write(noisy(20), change=lambda header: header.update(finished_utc=None))
    assert bench.call("accept") == 1 and "is unfinished" in bench.out


def test_five_times_four_per_cent_fail(bench):
    """Each step is below the threshold and is accepted; together they are 22 % and are not."""
    rules = bench.folder / "gate.toml"
    rules.write_text('[defaults]\nthreshold = "+6%"\ncumulative = "+10%"\n', encoding="utf-8")
    codes = []
    for step in range(6):
        bench.write(noisy(20, seed=step) * 1.04**step)
        codes.append(bench.call("gate", "--baseline", "--rules", rules))
        if step and codes[-1]:
            break
        assert bench.call("accept", "--rules", rules) == 0
    # +4 and +8 % pass, +12 % does not.
    assert codes == [0, 0, 0, 1]
    assert "against the oldest baseline: FAILED: 3 regressed" in bench.last
    assert bench.call("accept", "--rules", rules) == 1


def test_a_baseline_with_a_time_that_is_none_is_told_by_its_file_and_cell(bench):
    bench.write(noisy(20))
    bench.call("accept")
    file = bench.baselines / "cpu-0123456789ab" / "sequence_length.json"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("[0.00", "[-0.00", 1), encoding="utf-8")
    assert bench.call("gate", "--baseline") == 5
    assert f"{file}: " in bench.err and "has a time that is not positive" in bench.err


def test_a_baseline_of_another_machine_is_not_comparable(bench):
    bench.write(noisy(20))
    bench.call("accept")
    bench.write(noisy(20), machine_key="other")
    assert bench.call("gate", "--baseline") == 4
    assert "has those of cpu-0123456789ab" in bench.last
    file = bench.baselines / "cpu-0123456789ab" / "sequence_length.json"
    assert bench.call("gate", file, "latest") == 4
