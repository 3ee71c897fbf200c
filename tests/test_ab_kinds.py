"""What `suites ab` compares beside commits, how it keeps to a time, and what it refuses."""

from __future__ import annotations

import json
import sys

import pytest

from suites.__main__ import main
from suites.ab.arguments import parse_ab, seconds
from suites.ab.default_cells import completed
from tests.turning import Turning


@pytest.fixture
def turning(tmp_path):
    return Turning(tmp_path)


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("ab", "revisions: none: give BASE, or BASE HEAD"),
        ("ab a b c", "revisions: a b c: give BASE"),
        ("ab no-such-thing", '"no-such-thing" is no revision of'),
        ("ab HEAD --repo /", "is in no git repository"),
        ("ab --impl-a naive", "--impl-a and --impl-b go together"),
        ("ab --env-a python3 --env-b no-such-python", "no-such-python is no interpreter"),
        ("ab HEAD --impl-a naive --impl-b chunked", "at once could not be told apart"),
        ("ab --impl-a naive --impl-b chunked --impl x", "those two are measured"),
        ("ab HEAD --suite no-such", 'no suite "no-such": one of '),
        ("ab HEAD --rules no-such.toml", "no-such.toml: no such file: it takes one like gate.toml"),
        ("ab --resume no-such", 'no comparison called "no-such"'),
    ],
)
def test_what_cannot_be_compared_is_refused_with_what_can(typed, told, tmp_path, capsys):
    assert main([*typed.split(), "--store", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert told in error and error.startswith("attnbench: ")
    assert not list(tmp_path.glob("ab/*/manifest.json"))


def test_options_of_measuring_and_of_judging_are_told_apart_wherever_they_stand():
    typed = "HEAD~1 --impl a --json HEAD --problem T=8 --rules r.toml --time-limit 15m --dtype=bf"
    found = parse_ab(typed.split())
    assert found.revisions == ["HEAD~1", "HEAD"] and found.time_limit == 900
    assert found.selection == ["--impl", "a", "--problem", "T=8", "--dtype", "bf"]
    assert found.gate == ["--json", "--rules", "r.toml"]


def test_files_of_another_user_are_told_with_git_s_remedy(turning, monkeypatch, capsys):
    """As in a container that runs as root over a mounted checkout."""
    turning.commit(fine_1=1.0)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert turning.ab("HEAD") == 2
    error = capsys.readouterr().err
    assert "detected dubious ownership" in error
    assert f"git config --global --add safe.directory {turning.repo}" in error


@pytest.mark.parametrize("typed", ["ab HEAD --shard 1/2", "bisect A B cell --shard=1/2"])
def test_a_part_of_the_cells_is_refused_where_sides_take_turns(typed, tmp_path, capsys):
    """Each side would measure it, and nobody the rest."""
    with pytest.raises(SystemExit) as refused:
        main([*typed.split(), "--store", str(tmp_path)])
    error = capsys.readouterr().err
    assert refused.value.code == 2 and "--shard has no meaning here" in error
    assert "choose cells with --suite, --problem or -k" in error


@pytest.mark.parametrize(
    ("text", "value"), [("90s", 90), ("1.5h", 5400), ("300", 300), ("2 m", 120)]
)
def test_times_are_read(text, value):
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "0m", "-3m", "soon", "1d"])
def test_what_is_no_time_is_refused(text, capsys):
    with pytest.raises(SystemExit) as refused:
        parse_ab(["HEAD", f"--time-limit={text}"])
    assert refused.value.code == 2 and "give 15m, 90s or 1h" in capsys.readouterr().err


def test_what_is_given_replaces_the_default_cells():
    ours, is_default = completed([], [], sys.executable, has_own_kernels=True)
    assert is_default and ours.count("--problem") == 3 and "--impl" in ours
    brought, _ = completed(["--impl", "m:f"], [], sys.executable, has_own_kernels=False)
    assert brought.count("--impl") == 1 and brought.count("--problem") == 3
    given, is_default = completed(["--problem", "T=8"], [], sys.executable, has_own_kernels=True)
    assert not is_default and given.count("--problem") == 1 and "--impl" not in given
    of_suite, _ = completed([], ["heads"], sys.executable, has_own_kernels=True)
    assert "--problem" not in of_suite and of_suite[of_suite.index("--budget") + 1] == "smoke"


@pytest.mark.slow
def test_two_implementations_take_turns_and_their_cells_have_no_name_of_their_own(
    turning, monkeypatch, capfd
):
    turning.commit(quick_1=1.0, fine_1=1.2)
    monkeypatch.chdir(turning.repo)
    rules = ("--rules", str(turning.rules))
    command = ("--impl-a", "quick", "--impl-b", "fine", "--json", *rules)
    assert turning.here(*command) == 1
    (cell,) = json.loads(capfd.readouterr().out)["cells"]
    assert cell["ratio"] == pytest.approx(1.2, rel=0.01) and cell["implementation"] == "*"
    assert {line["implementation"] for line in turning.lines("head")} == {"fine"}


@pytest.mark.slow
def test_two_environments_may_differ_in_their_torch_and_that_is_said(
    turning, tmp_path, monkeypatch, capfd
):
    turning.commit(fine_1=1.0)
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\nFAKE_TORCH=9.9 exec {sys.executable} "$@"\n', encoding="utf-8")
    other.chmod(0o755)
    monkeypatch.chdir(turning.repo)
    environments = ("--env-a", sys.executable, "--env-b", str(other), "--problem", "T=17")
    assert turning.here(*environments, "--rules", str(turning.rules), "--json") == 0
    out, err = capfd.readouterr()
    (reason,) = [one for one in json.loads(out)["reasons"] if one["is_allowed"]]
    assert reason["text"] == 'torch "2.13.0" → "9.9" (allowed)' and "differ in torch" in err


@pytest.mark.slow
def test_each_revision_is_built_in_an_environment_of_its_own(turning, capfd):
    turning.write(fine_1=1.0)
    (turning.repo / "cells.txt").rename(turning.repo / "base.txt")
    (turning.repo / "mylib.py").touch()
    turning.git("add", "-A")
    turning.git("commit", "-qm", "source")
    turning.write(fine_1=2.0)
    (turning.repo / "cells.txt").rename(turning.repo / "base.txt")
    before = turning.state
    build = ("--build", 'cp base.txt cells.txt; python -c "import torch, sys; print(sys.prefix)"')
    brought = ("--impl", "mylib:attention")
    assert turning.ab("HEAD", *build, *brought) == 1 and turning.state == before
    assert "building base" in capfd.readouterr().err
    assert turning.ab("HEAD", "--build", "false", *brought) == 5
    assert "`false` in" in capfd.readouterr().err
    assert turning.ab("HEAD", *build, "--impl", "json:loads") == 5
    assert "json is imported from" in capfd.readouterr().err and turning.state == before


@pytest.mark.slow
def test_only_what_the_screen_suspects_is_confirmed(tmp_path, capfd):
    turning = Turning(tmp_path, screen=5, confirm=6)
    turning.commit(fine_1=1.0, fine_2=2.0, fine_3=3.0)
    turning.commit(fine_1=1.0, fine_2=2.0, fine_3=4.0)
    assert turning.ab("HEAD~1", "HEAD", "--json") == 1
    out, err = capfd.readouterr()
    (cell,) = [one for one in json.loads(out)["cells"] if one["verdict"] == "regressed"]
    assert "T=19" in cell["problem"] and cell["is_confirmed"] and cell["base_launches"] == 6
    late = [line for line in turning.lines("head") if line["launch"] > 5]
    assert {19} <= {line["problem"]["T_q"] for line in late}
    assert len(late) == 6 * len({line["cell"] for line in late}) < 18
    assert "may have changed: 6 launches a side" in err


@pytest.mark.slow
def test_a_time_limit_that_is_too_short_says_what_it_cannot_promise(tmp_path, capfd):
    turning = Turning(tmp_path, screen=5, confirm=20)
    turning.commit(fine_1=1.0)
    turning.commit(fine_1=1.5)
    revisions = ("HEAD~1", "HEAD", "--time-limit", "2s")
    assert turning.ab(*revisions) == 0
    err = capfd.readouterr().err
    assert "the time limit is 0:02: the first launches alone take longer and are measured" in err
    assert "not confirmed (a longer --time-limit is)" in err
    assert turning.count("head") == 5
    assert turning.ab(*revisions, "--strict") == 3
