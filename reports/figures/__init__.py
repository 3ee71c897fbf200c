"""The figures: one module each, TITLE and draw(run) -> Figure, found by folder scan."""

from __future__ import annotations

import importlib
import io
import pkgutil
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from reports.backend import without_backend
from reports.style import RULES
from results.run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure


with without_backend():
    import matplotlib

PNG_DPI = 160


@dataclass(frozen=True)
class Drawn:
    """A figure as files: `svg` has ids of its own, so that several fit into one page.

    `about` is the quantity that it shows best (`results.finding`), "" for none of those; `suites`
    are those that it draws where it names them.
    """

    name: str
    title: str
    alternative: str
    svg: str
    png: bytes
    about: str = ""
    suites: tuple[str, ...] = ()


def figure_modules() -> list[ModuleType]:
    """The modules of this folder, what answers most first; a new figure is one new file."""
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    first = ("roofline", "latency", "speed_up", "winners")
    names.sort(key=lambda n: (first.index(n) if n in first else len(first), n))
    return [importlib.import_module(f"{__name__}.{name}") for name in names]


@contextmanager
def drawing_rules() -> Iterator[None]:
    """Draw by our own rules alone, whatever the reader's matplotlibrc says."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        # A name in a script that DejaVu lacks is boxes in the PNG, but text in SVG and table.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        matplotlib.rcdefaults()
        for name, value in RULES.items():
            matplotlib.rcParams[name] = value
        yield


def render(module: ModuleType, run: Run, *, with_png: bool = True) -> Drawn | None:
    """The figure of the run, None when the run has nothing for it; same run, same bytes.

    Without PNG its bytes are none: what a page alone shows needs only the SVG.
    """
    name = module.__name__.rpartition(".")[2]
    with drawing_rules():
        figure: Figure | None = module.draw(run)
        if figure is None:
            return None
        svg, png = io.BytesIO(), io.BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": "attnbench"})
        if with_png:
            figure.savefig(png, format="png", dpi=PNG_DPI, metadata={"Software": "attnbench"})
        figure.clear()
    title = str(module.TITLE)
    return Drawn(
        name=name,
        title=title,
        alternative=_alternative(module),
        svg=_own_ids(svg.getvalue().decode(), name),
        png=png.getvalue(),
        about=getattr(module, "ABOUT", ""),
        suites=getattr(module, "SUITES", (getattr(module, "SUITE", ""),)),
    )


def render_pdf(module: ModuleType, run: Run) -> bytes | None:
    """The figure as PDF, None when the run has nothing for it; same run, same bytes."""
    with drawing_rules():
        figure: Figure | None = module.draw(run)
        if figure is None:
            return None
        pdf = io.BytesIO()
        figure.savefig(pdf, format="pdf", metadata={"CreationDate": None, "Creator": "attnbench"})
        figure.clear()
    return pdf.getvalue()


def _alternative(module: ModuleType) -> str:
    """What the picture shows, for those who cannot see it: the module's first sentence."""
    return (module.__doc__ or str(module.TITLE)).strip().splitlines()[0]


def _own_ids(svg: str, name: str) -> str:
    """Start every id, and every reference to one, with the figure's name; no id comes twice."""
    seen: Counter[str] = Counter()

    def own(match: re.Match[str]) -> str:
        given = match.group(1)
        seen[given] += 1
        return f'id="{name}-{given}{f"-{seen[given]}" if seen[given] > 1 else ""}"'

    svg = re.sub(r'\bid="([^"]*)"', own, svg)
    return re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{name}-", svg)
