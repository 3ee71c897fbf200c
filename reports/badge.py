"""A run in one line, as badge services read it: https://shields.io/badges/endpoint-badge."""

from __future__ import annotations

import json

from reports.page import device_name
from results.run import Run


def badge(run: Run) -> str:
    """One line of JSON: the best share of a bound that was reached, or what went wrong."""
    counts = run.counts
    wrong, trusted = counts.get("wrong", 0), run.trusted_cells
    shares = [
        (percent, cell.implementation)
        for cell in trusted
        if cell.problem.is_attention and (percent := cell.percent_of_bound) is not None
    ]
    if wrong:
        message, colour = f"{wrong} wrong", "red"
    elif not trusted:
        message, colour = "nothing timed", "lightgrey"
    elif not shares:
        message, colour = f"{len(trusted)} cells right", "blue"
    else:
        percent, name = max(shares)
        message, colour = f"{name} {percent:.0f} % of bound, {len(trusted)} cells right", "blue"
    label = f"attention on {device_name(run)}"
    record = {"schemaVersion": 1, "label": label, "message": message, "color": colour}
    return json.dumps(record, ensure_ascii=False) + "\n"
