"""Figures of what attention costs by arithmetic: no run is needed, only a comparison's numbers.

`python -m impls cost --compare …` counts and hands its JSON to `python -m reports.cost`, as a file
is handed on everywhere here: reports imports no implementation, and impls nothing of ours.
"""
