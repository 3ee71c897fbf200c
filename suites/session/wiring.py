"""Between pytest's hooks and a session of measuring: what each hook of conftest.py does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from suites.session import options as session_options

ROOT = Path(__file__).resolve().parents[2]
SKIPPED_AS = ("skipped", "unsupported", "unavailable", "oom", "timeout", "crashed")
SESSION: pytest.StashKey[Any] = pytest.StashKey()
_ASKED: pytest.StashKey[Asked] = pytest.StashKey()
_PROGRESS: pytest.StashKey[Any] = pytest.StashKey()


@dataclass(frozen=True)
class Asked:
    """What the command line asked for, resolved against what is here."""

    options: session_options.Options
    chosen: Any
    implementations: dict[str, Any]
    resumed: Any


def configure(config: pytest.Config) -> None:
    """Send pytest-benchmark's storage to the checkout unless the user says where."""
    if getattr(config.option, "benchmark_storage", "").startswith("file://./"):
        config.option.benchmark_storage = f"file://{ROOT / '.benchmarks'}"


def prepare(config: pytest.Config) -> None:
    """Read the options where suites are asked for by name, so that a mistake is told at once.

    Raises:
        pytest.UsageError: an option has no meaning here.
    """
    paths = [Path(str(arg).split("::")[0]) for arg in config.args]
    if any(
        (config.invocation_params.dir / p).resolve().is_relative_to(ROOT / "suites") for p in paths
    ):
        asked(config)


def asked(config: pytest.Config) -> Asked:
    """What the command line asked for; read once.

    Raises:
        pytest.UsageError: an option has no meaning here.
    """
    if _ASKED not in config.stash:
        try:
            config.stash[_ASKED] = _read(config)
        except ValueError as error:
            raise pytest.UsageError(f"attnbench: {error}") from error
    return config.stash[_ASKED]


def _read(config: pytest.Config) -> Asked:
    from impls.interface.device_choice import choose
    from impls.interface.registry import select
    from suites.session.resume import resume

    given = session_options.read(config)
    _refuse_xdist(config)
    resumed = resume(given.store, given.resume) if given.resume else None
    if resumed is not None:
        was = resumed.header["settings"]
        given = replace(
            given,
            brought=resumed.brought,
            budget=was["budget"],
            threads=was["threads"],
            flop_convention=was["flop_convention"],
            baseline=was["baseline"],
            device=resumed.header["device"],
        )
    names = list(given.impls)
    if given.baseline and (names or given.brought):
        names.append(given.baseline)
    elif given.baseline:
        select([given.baseline])
    return Asked(given, choose(given.device), select(names, given.brought), resumed)


def _refuse_xdist(config: pytest.Config) -> None:
    import os

    if os.environ.get("PYTEST_XDIST_WORKER") or getattr(config.option, "dist", "no") != "no":
        raise ValueError(
            "0 cells would be measured: pytest-xdist is active and would time them side by side; "
            "run without -n (or with -p no:xdist)"
        )


def parametrize(metafunc: pytest.Metafunc) -> None:
    """One test per cell of the bench file's series, or of the user's own problems."""
    from suites.session.sweep import Series, cells

    this = asked(metafunc.config)
    module: Any = metafunc.module
    suite = module.AXIS
    if this.resumed is not None:
        from impls.interface.registry import implementations

        known = implementations(this.options.brought)
        found = [c for s in (suite, "given") for c in this.resumed.cells(s, known)]
    else:
        found = []
        device = this.chosen.device
        for dtype in this.options.dtypes or _dtypes(device, this.options.budget):
            own = this.options.sizes(dtype)
            series = module.series(device, dtype) if own is None else [Series("given", tuple(own))]
            found += cells(
                suite if own is None else "given",
                series,
                list(this.implementations.values()),
                passes=this.options.passes,
                cache=this.options.cache or ("cold" if device == "cuda" else "hot"),
                device=device,
                threads=this.options.threads,
            )
    metafunc.parametrize("cell", found, ids=[c.id for c in found])


def _dtypes(device: str, budget: str) -> tuple[str, ...]:
    if device == "cuda":
        return ("bfloat16",)
    return ("float32", "bfloat16") if budget in ("default", "full") else ("float32",)


def drop_duplicates(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect cells that an earlier suite has already, and suites with nothing to measure.

    Raises:
        pytest.UsageError: a run that is resumed has nothing left.
    """
    seen: set[str] = set()
    kept, dropped = [], []
    for item in items:
        cell = _cell(item)
        is_measured = "cell" in getattr(item, "fixturenames", ())
        is_new = not is_measured if cell is None else cell.key not in seen
        (kept if is_new else dropped).append(item)
        if cell is not None:
            seen.add(cell.key)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept
    if _ASKED in config.stash and (resumed := config.stash[_ASKED].resumed) and not seen:
        raise pytest.UsageError(f"attnbench: run {resumed.path.name} has nothing left to measure")


def begin(session: pytest.Session) -> None:
    """Start a run when there are cells among the collected items."""
    from suites.session.progress import Progress
    from suites.session.session import Session

    config = session.config
    found = [cell for item in session.items if (cell := _cell(item)) is not None]
    if not found or config.option.collectonly or session.testsfailed:
        return
    this = asked(config)
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    tell = _teller(reporter)
    is_timed = not config.getoption("benchmark_disable")
    running = config.stash[SESSION] = Session(this.options, this.chosen, this.resumed)
    try:
        running.begin(found, this.options.store, tell, is_timed)
    except (ValueError, OSError) as error:
        raise pytest.UsageError(f"attnbench: {error}") from error
    config.stash[_PROGRESS] = Progress(running.to_measure, _line_writer(reporter))
    if reporter is not None and config.get_verbosity() == 0:
        # Cells have lines of their own: pytest's line per file would stand between them.
        reporter.showfspath = False


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
    if running is None or call.excinfo is None or _cell(item) is None:
        return report
    closed = running.fail(call.excinfo.value)
    if closed is not None and closed[0] in SKIPPED_AS:
        report.outcome = "skipped"
        path, line, _ = item.location
        report.longrepr = (path, line or 0, f"Skipped: {closed[0]}: {'; '.join(closed[1])}")
    return report


def status_of(report: pytest.TestReport, config: pytest.Config) -> tuple[str, str, str] | None:
    """Show the cell that was closed last, and give pytest a status without a letter.

    None outside measuring, and with -v, where pytest tells every test itself.
    """
    running = config.stash.get(SESSION, None)
    if running is None or config.get_verbosity() > 0:
        return None
    if report.when == "call" and running.last is not None:
        config.stash[_PROGRESS].show(running.last)
    if report.when != "call" and report.passed:
        return "", "", ""
    return report.outcome, "", ""


def finished_run(config: pytest.Config) -> Path | None:
    """The folder of the run that was just measured; None when there is none."""
    running = config.stash.get(SESSION, None)
    return running.directory.path if running is not None and running.directory else None


def table_width(reporter: Any) -> int:
    """The columns of the terminal; 80 in a log, where nobody said how wide it is read."""
    return max(60, reporter._tw.fullwidth) if reporter.isatty else 80


def next_step(config: pytest.Config) -> str:
    """What to type now."""
    running = config.stash[SESSION]
    name = running.directory.run_id
    if running.is_interrupted:
        return f"interrupted; what is finished is kept. Go on: pytest suites --resume {name}"
    return f"run {name}\nreport: python -m reports {name}"


def finish(session: pytest.Session, exitstatus: int) -> None:
    """Close the run: its end in run.json, and pytest-benchmark's own JSON beside the journal."""
    from suites.session.launch_file import write_launch

    running = session.config.stash.get(SESSION, None)
    if running is None or running.directory is None:
        return
    running.finish(exitstatus == pytest.ExitCode.INTERRUPTED)
    write_launch(session.config, running.directory.path)


def commit_info(config: pytest.Config) -> dict[str, object]:
    """Commit and dirtiness of the checkout, in pytest-benchmark's fields."""
    from suites.measure.environment import checkout

    commit, is_dirty = checkout()
    return {"id": commit or "unversioned", "dirty": is_dirty, "project": "attnbench", "time": None}


def _cell(item: pytest.Item) -> Any:
    """The cell of a test; None for other tests, and where a suite has none."""
    callspec = getattr(item, "callspec", None)
    cell = callspec.params.get("cell") if callspec else None
    return cell if hasattr(cell, "key") else None


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
        reporter.rewrite(line, erase=True)
        if is_last:
            reporter.write_line("")

    return write
