"""Ray as the engine of a fleet: on this machine alone, or in a cluster that is there already."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

from suites.fleet.arguments import FleetOptions
from suites.fleet.cores import whole_cores
from suites.fleet.engine import Ended, Node, Told
from suites.fleet.task import hold
from suites.static.interruption import Interrupted
from suites.supervisor.supervisor import CannotGoOn

INSTALL = (
    "--fleet ray: Ray is not installed: pip install ray (or, from the checkout, '.[fleet]'); "
    "without it `python -m suites run --shard 1/2` and `python -m results merge` do as well"
)
OBJECT_STORE_BYTES = 100 << 20
"""Lines of a journal pass through; Ray takes no less than 75 MiB."""
ANSWER_S = 10.0
"""So long a cluster's address may take to answer; Ray itself asks for minutes."""
LOOK_S, MOST_SILENCES = 3.0, 5
"""So often Ray's head is looked for, and so often in a row it may not answer: after a minute of
that Ray ends this process, and nothing is written of the run's end."""
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Without a GPU asked for, tasks see what the machine has; the rule of newer Rays, told of else.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_OF_OUR_OWN = {
    # A cell that asks for too much memory is judged by its supervisor, not killed by Ray.
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_enable_metrics_collection": "0",
}


class RayEngine:
    """Tasks of Ray, each a stream of lines; use `connected` to have one."""

    def __init__(self, ray: Any, options: FleetOptions, scratch: str | None) -> None:
        """Of a `ray` that is connected; tasks make their folders in `scratch`, None: as they do."""
        self._ray, self._options, self.scratch = ray, options, scratch
        self._streams: dict[int, Any] = {}
        self._looked_s, self._silences = time.monotonic(), 0
        found = [node for node in ray.nodes() if node["Alive"]]
        has_gpu = any(node["Resources"].get("GPU") for node in found)
        self.is_gpu = options.device == "cuda" or (options.device == "auto" and has_gpu)
        self._nodes = [
            Node(node["NodeID"], node["NodeManagerHostname"], devices)
            for node in found
            if (devices := self._devices(node["Resources"]))
        ]

    def nodes(self) -> Sequence[Node]:
        """The machines with such devices, those with most of them first."""
        return sorted(self._nodes, key=lambda node: (-node.devices, node.id))

    def start(self, task: int, node: Node, order: Mapping[str, Any]) -> None:
        """A task on that node and no other, not tried again by Ray: who has which rows is ours."""
        strategy = import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
        options: dict[str, Any] = {
            "num_cpus": 1 if self.is_gpu else self._options.threads,
            "num_gpus": 1 if self.is_gpu else 0,
            "max_retries": 0,
            "scheduling_strategy": strategy(node_id=node.id, soft=False),
            "name": f"attnbench {order['do']}",
        }
        if self._options.accelerator_type:
            options["accelerator_type"] = self._options.accelerator_type
        self._streams[task] = self._ray.remote(**options)(hold).remote(dict(order))

    def happened(self, limit_s: float) -> Sequence[Told | Ended]:
        """What is there, after waiting for the first thing.

        Raises:
            CannotGoOn: Ray itself is gone.
        """
        self._check_ray_is_there()
        if not self._streams:
            time.sleep(limit_s)
            return []
        events: list[Told | Ended] = []
        while self._streams:
            limit_s = 0.0 if events else limit_s
            ready, _ = self._ray.wait(list(self._streams.values()), timeout=limit_s)
            if not ready:
                break
            task = next(n for n, stream in self._streams.items() if stream is ready[0])
            events.append(self._next(task))
        return events

    def cancel(self) -> None:
        """Interrupt every task: it ends its processes, and tells what is finished."""
        for stream in self._streams.values():
            self._ray.cancel(stream)

    def _next(self, task: int) -> Told | Ended:
        try:
            return Told(task, json.loads(self._ray.get(next(self._streams[task]))))
        except StopIteration:
            lost = None
        except self._ray.exceptions.RayError as error:
            lost = _cause(error)
        del self._streams[task]
        return Ended(task, lost)

    def _check_ray_is_there(self) -> None:
        now_s = time.monotonic()
        if now_s < self._looked_s + LOOK_S:
            return
        self._looked_s = now_s
        address = self._ray.get_runtime_context().gcs_address
        try:
            _knock(address, LOOK_S)
        except OSError as error:
            self._silences += 1
            if self._silences >= MOST_SILENCES:
                raise CannotGoOn(f"Ray at {address} is gone: {error}") from None
        else:
            self._silences = 0

    def _devices(self, resources: Mapping[str, float]) -> int:
        wanted = self._options.accelerator_type
        if wanted and f"accelerator_type:{wanted}" not in resources:
            return 0
        if self.is_gpu:
            return int(resources.get("GPU", 0))
        return int(resources.get("CPU", 0)) // self._options.threads


@contextmanager
def connected(options: FleetOptions, code: Path) -> Iterator[RayEngine]:
    """Ray with the shipped `code`; one that was started for it is ended, with all it started.

    Raises:
        CannotGoOn: Ray is not installed, or there is no cluster at the address.
        Interrupted: SIGTERM came while Ray started.
    """
    own = {} if options.address else _OF_OUR_OWN
    for name, value in (_QUIET | own).items():
        os.environ.setdefault(name, value)
    try:
        ray: Any = import_module("ray")
    except ImportError:
        raise CannotGoOn(INSTALL, is_usage=True) from None
    if options.address:
        _check_somebody_is_there(options.address)
    with (
        tempfile.TemporaryDirectory(prefix="attnbench-ray-", ignore_cleanup_errors=True) as folder,
        # Ray tells of what it lost on stdout, until its end; our own lines tell it too.
        Path(os.devnull).open("w") as nowhere,
        redirect_stdout(nowhere),
    ):
        try:
            _init(ray, options, code, folder)
            yield RayEngine(ray, options, None if options.address else folder)
        finally:
            ray.shutdown()


def _init(ray: Any, options: FleetOptions, code: Path, folder: str) -> None:
    try:
        ray.init(
            logging_level=logging.ERROR,
            log_to_driver=False,
            runtime_env={"working_dir": str(code)},
            **({"address": options.address} if options.address else _alone(folder)),
        )
    except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
        where = f"--address {options.address}: " if options.address else ""
        asked = where and "RAY_AUTH_MODE" not in os.environ
        hint = "; where it asks for a token: export RAY_AUTH_MODE=token" if asked else ""
        raise CannotGoOn(f"{where}Ray: {_cause(error)}{hint}", is_usage=bool(where)) from None
    except SystemExit:
        # Ray's own answer to SIGTERM, with a code that says something else.
        raise Interrupted(signal.SIGTERM) from None


def _check_somebody_is_there(address: str) -> None:
    """Try "host:port"; "auto" and what else Ray knows is Ray's to find.

    Raises:
        CannotGoOn: nobody listens there.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        _knock(address, ANSWER_S)
    except (OSError, OverflowError) as error:
        told = f"--address {address}: no Ray cluster answers there: {error}"
        raise CannotGoOn(told, is_usage=True) from None


def _knock(address: str, limit_s: float) -> None:
    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), limit_s).close()


def _alone(folder: str) -> dict[str, Any]:
    """A Ray of this machine alone, small and silent, whose files are gone with it."""
    return {
        "address": "local",
        "num_cpus": len(whole_cores(os.sched_getaffinity(0))),
        "object_store_memory": OBJECT_STORE_BYTES,
        "include_dashboard": False,
        "_temp_dir": folder,
    }


def _cause(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
