"""`python -m suites.gpu_day.environment`: the environment of the day, as JSON on stdout."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the environment and the machine's key; → 0, or 2 where the device is not there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    options = parser.parse_args(arguments)
    from impls.interface.device_choice import choose
    from suites.measure import allocator
    from suites.measure.environment import machine_key, read_environment

    allocator.make_steady()
    try:
        device = choose(options.device).device
    except ValueError as error:
        parser.error(str(error))
    environment = read_environment(device)
    record = {"machine_key": machine_key(environment), "environment": environment}
    print(json.dumps(record, indent=1, allow_nan=False))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
