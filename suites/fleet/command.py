"""`python -m suites run --fleet ray`: from the options to the runs, their end and the exit code."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from suites.fleet.arguments import FleetOptions
from suites.fleet.display import FleetDisplay, FleetJsonLines, FleetLines
from suites.fleet.fleet import Fleet
from suites.fleet.ray_engine import RayEngine, connected
from suites.fleet.shipping import Shipment, packed, ship
from suites.measure.journal import RunDirectory
from suites.session.options import store_folder
from suites.static.interruption import Interrupted, interruptible
from suites.supervisor.ending import BROKEN, USAGE, tell_the_end
from suites.supervisor.request import ROOT, Request
from suites.supervisor.run_files import RunFiles
from suites.supervisor.stopping import Stopping
from suites.supervisor.supervisor import CannotGoOn, finish_run


def measured(
    request: Request, options: FleetOptions, as_json: bool, files: RunFiles | None = None
) -> int:
    """Measure on a fleet what is asked for, or what the run of `files` lacks; → the exit code."""
    try:
        with interruptible():
            return _measured(request, options, as_json, files)
    except Interrupted as end:
        # Before there was a fleet, or after it.
        return end.exit_code


def _measured(
    request: Request, options: FleetOptions, as_json: bool, files: RunFiles | None
) -> int:
    # Ray prints to whatever stdout is while it is connected.
    make_display = partial(_display, as_json, sys.stdout)
    display = make_display()
    with tempfile.TemporaryDirectory(prefix="attnbench-code-") as folder:
        brought = files.header["settings"].get("brought", ()) if files else ()
        shipment = ship(Path(folder), request.arguments, brought)
        display.line("connecting to Ray" if options.address else "starting Ray on this machine")
        try:
            with connected(options, shipment.folder) as engine, Stopping() as stopping:
                order = _order(request, options, shipment, engine)
                fleet = Fleet(engine, order, stopping, display.line)
                code = _driven(fleet, request, options, shipment, make_display, files)
                code = stopping.exit_code if stopping.is_asked else code
        except CannotGoOn as error:
            # Before there was a fleet.
            display.line(str(error))
            return USAGE if error.is_usage else BROKEN
    how = _options_again(options)
    codes = [
        tell_the_end(kind.files, kind.display, code, kind.tasks_started, how)
        for kind in fleet.kinds
    ]
    return max(codes, default=code or BROKEN)


def _driven(
    fleet: Fleet,
    request: Request,
    options: FleetOptions,
    shipment: Shipment,
    make_display: Callable[..., FleetDisplay],
    files: RunFiles | None,
) -> int:
    """Begin or go on, measure, and write the end of every run; → the code of what went wrong."""
    display = make_display()

    def new_run(header: Mapping[str, Any], is_one_of_several: bool) -> tuple[RunFiles, Any]:
        made = _run_of(header, store_folder(options.store), shipment)
        return made, make_display(is_one_of_several)

    failure, code = None, 0
    try:
        if files is None:
            fleet.begin(options.workers, request.launches or 1, new_run)
        else:
            if request.retry:
                files.give_another_chance()
            fleet.go_on(options.workers, request.launches, files, display)
        fleet.measure()
    except CannotGoOn as error:
        failure, code = str(error), USAGE if error.is_usage else BROKEN
    except ValueError as error:
        # Another process writes this run: it is its to end.
        display.line(str(error))
        return USAGE
    except OSError as error:
        failure, code = str(error), BROKEN
    for kind in fleet.kinds:
        failure = finish_run(kind.files) or failure
    if failure:
        display.line(f"cannot go on: {failure}")
        code = code or BROKEN
    return code


def _order(
    request: Request, options: FleetOptions, shipment: Shipment, engine: RayEngine
) -> dict[str, Any]:
    """What every task is told, whatever it does."""
    return {
        "arguments": shipment.arguments,
        "files": shipment.files,
        "home": str(ROOT),
        "folder": str(Path.cwd()),
        "device": "cuda" if engine.is_gpu else "cpu",
        "threads": options.threads,
        "cores": 0 if engine.is_gpu else options.threads,
        "accelerator_type": options.accelerator_type,
        "launches": request.launches or 1,
        "cell_limit_s": request.cell_limit_s,
        "looks_again": request.looks_again,
        "scratch": engine.scratch,
    }


def _run_of(header: Mapping[str, Any], store: Path, shipment: Shipment) -> RunFiles:
    """A new run directory with the plan that a node made, told as of this checkout."""
    # Imports torch, and only here: git is asked as every run asks it.
    from suites.measure.environment import checkout

    commit, is_dirty = checkout()
    settings, environment = header["settings"], header["environment"]
    here = {"commit": commit, "dirty": is_dirty, "folder": str(Path.cwd())}
    with RunDirectory.create(store, header["machine_key"], commit) as directory:
        directory.write_run(
            {
                **header,
                "run": directory.run_id,
                "commit": commit,
                "dirty": is_dirty,
                "command": "suites " + shlex.join(sys.argv[1:]),
                "environment": environment | here,
                "settings": settings | {"brought": packed(settings["brought"], shipment.files)},
            }
        )
    return RunFiles(directory.path)


def _options_again(options: FleetOptions) -> str:
    given = {"--address": options.address, "--accelerator-type": options.accelerator_type}
    words = [word for flag, value in given.items() if value for word in (flag, value)]
    return " " + shlex.join(["--fleet", "ray", *words])


def _display(as_json: bool, stdout: TextIO, is_one_of_several: bool = False) -> FleetDisplay:
    return FleetJsonLines(stdout) if as_json else FleetLines(is_one_of_several)
