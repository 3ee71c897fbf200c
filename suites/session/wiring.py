"""Between pytest's hooks and a session of measuring: what each hook of conftest.py does."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import pytest

from suites.measure.atomic_file import Unwritable, check_writable
from suites.session.options import store_folder
from suites.session.selection import ROOT, already_asked, asked, cell_of

SKIPPED_AS = ("skipped", "unsupported", "unavailable", "oom", "timeout")
SESSION: pytest.StashKey[Any] = pytest.StashKey()
_PROGRESS: pytest.StashKey[Any] = pytest.StashKey()


def begin(session: pytest.Session) -> None:
    """Start a run when there are cells among the collected items."""
    from suites.session.progress import Progress
    from suites.session.session import Session

    config = session.config
    found = [cell for item in session.items if (cell := cell_of(item)) is not None]
    if config.option.collectonly or session.testsfailed or not (found or _lacks_its_end(config)):
        return
    this = asked(config)
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    tell = _teller(reporter)
    is_timed = not config.getoption("benchmark_disable")
    running = config.stash[SESSION] = Session(this.options, this.chosen, this.resumed)
    try:
        check_writable(this.options.store)
        running.begin(found, this.options.store, tell, is_timed)
    except (ValueError, OSError) as error:
        raise pytest.UsageError(f"attnbench: {error}") from error
    if running.directory is None or running.orders.is_begin_only:
        # Only the plan was wanted, or the run with its plan.
        session.items.clear()
        return
    _keep_planned(session, running.plan)
    config.stash[_PROGRESS] = Progress(
        running.to_measure, _line_writer(reporter), running.looks.due_s
    )
    if reporter is not None and config.get_verbosity() == 0:
        # Cells have lines of their own: pytest's line per file would stand between them.
        reporter.showfspath = False


def _keep_planned(session: pytest.Session, plan: Collection[str]) -> None:
    """Deselect the cells that are another shard's; other tests stay."""
    mine, others = [], []
    for item in session.items:
        cell = cell_of(item)
        (mine if cell is None or cell.row in plan else others).append(item)
    if others:
        session.config.hook.pytest_deselected(items=others)
        session.items[:] = mine


def _lacks_its_end(config: pytest.Config) -> bool:
    """Whether a run is resumed of which all cells are there, and which was never finished."""
    resumed = given.resumed if (given := already_asked(config)) else None
    return resumed is not None and not resumed.is_finished


def look_again(session: pytest.Session) -> None:
    """Further looks at short cells; one that turned wrong fails the session."""
    running = session.config.stash.get(SESSION, None)
    if running is None or running.directory is None or session.shouldstop:
        return
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    for cell in running.look_again(_teller(reporter)):
        session.testsfailed += 1
        reporter.write_line(f"WRONG at a further look: {cell.id}", red=True)


def report_status(status: str, reasons: Iterable[str]) -> None:
    """Tell pytest how a cell ended: ok passes, what cannot be done skips, wrong fails."""
    if status == "ok":
        return
    told = f"{status}: {'; '.join(reasons)}"
    if status in SKIPPED_AS:
        pytest.skip(told)
    pytest.fail(told, pytrace=False)


def conclude(
    item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport
) -> pytest.TestReport:
    """Journal a cell whose call raised; out of memory and the like do not fail the session."""
    running = item.config.stash.get(SESSION, None)
    if running is None or call.excinfo is None or cell_of(item) is None:
        return report
    error = call.excinfo.value
    closed = running.fail(error)
    if running.lost or isinstance(error, Unwritable):
        # Nothing that follows could be measured, or kept.
        item.session.shouldstop = running.lost or str(error)
    if closed is not None and closed[0] in SKIPPED_AS:
        report.outcome = "skipped"
        path, line, _ = item.location
        report.longrepr = (path, line or 0, f"Skipped: {closed[0]}: {'; '.join(closed[1])}")
    return report


def status_of(report: pytest.TestReport, config: pytest.Config) -> tuple[str, str, str] | None:
    """Show the cell that was closed last, and give pytest a word without a letter.

    None outside measuring, and with -v, where pytest tells every test itself.
    """
    running = config.stash.get(SESSION, None)
    if running is None or config.get_verbosity() > 0:
        return None
    if report.when == "call" and running.last is not None:
        config.stash[_PROGRESS].show(running.last)
    if report.when != "call" and report.passed:
        return "", "", ""
    return report.outcome, "", report.outcome.upper()


def finished_run(config: pytest.Config) -> Path | None:
    """The folder of the run that was just measured; None where there is none to tell of."""
    running = config.stash.get(SESSION, None)
    if running is None or running.orders.is_supervised or running.directory is None:
        return None
    folder = running.directory.path
    # Where the disk was too full to begin a run there is none.
    return folder if (folder / "run.json").is_file() else None


def table_width(reporter: Any) -> int:
    """The columns of the terminal; 80 in a log, where nobody said how wide it is read."""
    return max(60, reporter._tw.fullwidth) if reporter.isatty else 80


def next_step(config: pytest.Config) -> str:
    """What to type now, as it works from the current folder."""
    running = config.stash[SESSION]
    name = running.directory.run_id
    told = f"{running.notice}\n" if running.notice else ""
    if running.looks.are_cut_short:
        told += "interrupted while looking again: every cell is measured, with fewer looks\n"
    python = python_here(config.invocation_params.dir)
    if running.is_interrupted:
        suites = "suites" if config.invocation_params.dir == ROOT else str(ROOT / "suites")
        return (
            f"{told}interrupted; what is finished is kept. Go on:\n"
            f"  {python} -m pytest {suites} --resume {shlex.quote(str(running.directory.path))}"
        )
    there = "" if config.invocation_params.dir == ROOT else f"cd {shlex.quote(str(ROOT))} && "
    folder = running.directory.path
    known = name if folder.is_relative_to(store_folder(None)) else shlex.quote(str(folder))
    return f"{told}run {name}\nreport: {there}{python} -m reports {known}"


def python_here(folder: Path) -> str:
    """The running interpreter as typed from `folder`: relative where it lies below."""
    executable = Path(sys.executable)
    if executable.is_relative_to(folder):
        executable = executable.relative_to(folder)
    return shlex.quote(str(executable))


def finish(session: pytest.Session, exitstatus: int) -> None:
    """Close the run: its end in run.json, and pytest-benchmark's own JSON beside the journal."""
    from suites.session.launch_file import write_launch

    running = session.config.stash.get(SESSION, None)
    if running is None or running.directory is None:
        return
    try:
        running.finish(exitstatus == pytest.ExitCode.INTERRUPTED)
        write_launch(session.config, running.directory.path)
    except OSError as error:
        # A full disk: the journal has every finished cell, and that is what counts.
        running.notice = f"WARNING: {error}"
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and running.counts.get("ok"):
        # Resumed, and nothing was lacking but the run's end.
        session.exitstatus = pytest.ExitCode.OK
    elif exitstatus == pytest.ExitCode.OK and not running.has_measured(asked(session.config).named):
        # Green with nothing measured is what a gate must never see.
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED


def _teller(reporter: Any) -> Any:
    def tell(line: str) -> None:
        if reporter is not None:
            reporter.write_line(f"attnbench: {line}")

    return tell


def _line_writer(reporter: Any) -> Any:
    """Plain lines in a log; on a terminal one line written over, the last one kept."""

    def write(line: str, *, is_last: bool) -> None:
        if reporter is None:
            return
        if not reporter.isatty:
            reporter.write_line(line)
            return
        # A line that wraps cannot be written over.
        reporter.rewrite(line[: reporter._tw.fullwidth - 1], erase=True)
        if is_last:
            reporter.write_line("")

    return write
