"""Runs to draw, and what a reader sees of a figure, for the tests of figures."""

from __future__ import annotations

import re

from matplotlib.figure import Figure
from matplotlib.text import Text

from impls.interface.problem import Problem
from reports.figures import Drawn, drawing_rules, render
from results.run import Run
from tests.fake_run import cell

SIX = ("naive", "chunked", "sdpa_flash", "sdpa_math", "flex", "compiled_naive")


def sweep(names=SIX, lengths=(128, 256, 512, 1024, 2048, 4096, 8192), **changes) -> list[dict]:
    """A T sweep, full and causal, in which implementations lie close to one another."""
    records = []
    for i, name in enumerate(names):
        for T in lengths:
            for causal in (False, True):
                problem = Problem(B=1, T_q=T, T_kv=T, H=8, d_h=64, causal=causal)
                time_s = 2.8e-8 * T * T * (1 + 0.06 * i) / (1.5 if causal and T > 512 else 1)
                records.append(cell(name, problem, time_s, **changes))
    return records


def drawn(module, run: Run) -> Figure:
    with drawing_rules():
        figure = module.draw(run)
    assert figure is not None
    return figure


def rendered(module, run: Run) -> Drawn:
    found = render(module, run)
    assert found is not None
    return found


def texts(figure: Figure) -> list[str]:
    everything = [t for axes in figure.axes for t in axes.texts] + list(figure.texts)
    return [text.get_text() for text in everything]


def title_of(axes) -> Text:
    """The title over the left edge of a panel."""
    words = axes.get_title(loc="left")
    texts_of = (child for child in axes.get_children() if isinstance(child, Text))
    return next(text for text in texts_of if text.get_text() == words)


def tick_texts(axis) -> list[str]:
    return [axis.get_major_formatter()(value) for value in axis.get_majorticklocs()]


def marks(svg: str) -> int:
    return len(re.findall(r'id="[a-z_]+-point-', svg))
