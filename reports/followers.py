"""What of a page follows the baseline that its reader picks: findings, and figures of ratios."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType

from reports.figures import Drawn, figure_modules, render
from results.run import Run


def baselines(run: Run) -> list[str]:
    """What the run's ratios may be set against, its own baseline with it; none where none is."""
    if not run.has_baseline:
        return []
    return sorted({cell.implementation for cell in run.comparable_cells} | {run.baseline})


def against(run: Run, baseline: str) -> Run:
    """The run with its ratios to this implementation."""
    settings = replace(run.header.settings, baseline=baseline)
    return replace(run, header=replace(run.header, settings=settings))


def ratio_figures(run: Run) -> dict[str, list[Drawn]]:
    """By each baseline but the run's own the figures of ratios to it, as SVG alone."""
    modules = [module for module in figure_modules() if _is_of_ratios(module)]
    return {
        name: [
            drawn
            for module in modules
            if (drawn := render(module, against(run, name), with_png=False)) is not None
        ]
        for name in baselines(run)
        if name != run.baseline
    }


def packed(parts: Mapping[str, str]) -> str:
    """HTML by the part of the page that it replaces, for the page's script to unpack.

    Deflated without a header (RFC 1951), in base64: a figure takes a fifth of its letters so.
    """
    html = "".join(f'<div data-part="{name}">{text}</div>' for name, text in parts.items())
    deflate = zlib.compressobj(level=9, wbits=-zlib.MAX_WBITS)
    return base64.b64encode(deflate.compress(html.encode()) + deflate.flush()).decode()


def _is_of_ratios(module: ModuleType) -> bool:
    return getattr(module, "ABOUT", "") == "ratio"
