"""A figure's SVG made fit to stand inside a page: small, each mark with its words and its row."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from reports.figures import Drawn
from reports.owners import owner_pattern, written
from reports.points import Point
from reports.style import GRID, count_name, quantity

# Verdana has the letter widths of DejaVu Sans, with which the labels were placed.
_FONT = "'DejaVu Sans',Verdana,sans-serif"


@dataclass(frozen=True)
class Mark:
    """What belongs to a point: its words on hovering, whose it is, and its row in the table."""

    words: str
    implementation: str = ""
    row: int | None = None


def inline_svg(
    drawn: Drawn, marks: Mapping[str, Mark], owners: Sequence[str] = (), place: int = 0
) -> str:
    """The `<svg>` element alone, of fluid width; `marks` by a point's own id.

    What belongs to one of `owners` says so with its number in `data-of`, a mark's row stands in
    `data-row`. Ids and classes begin with the figure's `place` on the page, shorter than its name.
    """
    svg = drawn.svg[drawn.svg.index("<svg") :]
    size = re.match(r'<svg[^>]*?width="([\d.]+)pt"[^>]*?viewBox="([^"]+)"[^>]*>', svg)
    assert size is not None
    body = _with_marks(svg[size.end() :], drawn.name, marks, owners)
    body = _classed(_unwrapped(_short_ids(_smaller(body), f"f{place}")), f"f{place}")
    label = escape(f"{drawn.title}: {drawn.alternative}")
    # matplotlib's points are 1/72 inch, the page's pixels 1/96.
    width_px = round(float(size.group(1)) * 4 / 3)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size.group(2)}" role="img" '
        f'aria-label="{label}" stroke-linejoin="round" '
        f'style="--full:{width_px}px;font-family:{_FONT}">{body}'
    )


def _smaller(svg: str) -> str:
    """The same drawing in fewer letters, and without what would reach beyond it."""
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # A style element would hold for the whole page.
    svg = re.sub(r"<style.*?</style>", "", svg, flags=re.DOTALL)
    # All but the fill stands in the marker's definition already.
    svg = re.sub(r'(<use [^>]*)style="fill: ([^;"]+)[^"]*"', r'\1fill="\2"', svg)
    svg = re.sub(r'(<use [^>]*?) style="[^"]*"', r"\1", svg)
    svg = re.sub(r"<[^>]*>", lambda m: _smaller_tag(m.group()), svg)
    # A line of one point draws nothing, and one of the grid never leaves its panel.
    svg = re.sub(r'<path d="M[^"A-Z]*"[^>]*/>', "", svg)
    svg = re.sub(rf' clip-path="[^"]*"(?= style="fill:none;stroke:{GRID.lower()};)', "", svg)
    svg = re.sub(r">\s+<", "><", svg).strip()
    svg = svg.replace("xlink:href", "href")
    # What belongs to a mark stands in the mark itself where it is one shape.
    svg = re.sub(r"<g><use ([^>]*)/></g>", r"<use \1/>", svg)
    return re.sub(
        r"<g( data-[^>]*)>(<title>[^<]*</title>)?<use ([^>]*)/></g>",
        lambda m: f"<use{m[1]} {m[3]}" + (f">{m[2]}</use>" if m[2] else "/>"),
        svg,
    )


def _smaller_tag(tag: str) -> str:
    """One tag in fewer letters; the text between tags is never touched."""
    tag = re.sub(r' transform="rotate\(-?0 [^"]*\)"', "", tag)
    tag = re.sub(r"-?\d{2,}\.\d{2,}", lambda m: f"{float(m.group()):.1f}", tag)
    tag = re.sub(r"-?\d\.\d{3,}", lambda m: f"{float(m.group()):.2f}", tag)
    tag = tag.replace("font-family: 'DejaVu Sans'; ", "").replace("text-anchor: start; ", "")
    tag = re.sub(r' d="[^"]*"', _tight, tag)
    return re.sub(r"\s+", " ", tag).replace("; ", ";").replace(": ", ":")


def _tight(path: re.Match[str]) -> str:
    """A path without the spaces about its letters, which end a number, and with V and H."""
    start, corners, end = path.group().split('"')
    corners = re.sub(r"\s*([A-Za-z])\s*", r"\1", corners).strip()
    corners = re.sub(r"^M(\S+) (\S+)L\1 (\S+)$", r"M\1 \2V\3", corners)
    corners = re.sub(r"^M(\S+) (\S+)L(\S+) \2$", r"M\1 \2H\3", corners)
    return f'{start}"{corners}"{end}'


def _short_ids(svg: str, name: str) -> str:
    """Ids that something refers to, numbered; the others tell nobody anything and go."""
    used = list(dict.fromkeys(re.findall(r'(?:href="#|url\(#)([^")]+)', svg)))
    numbers = {old: f"{name}-{i}" for i, old in enumerate(used)}

    def renamed(match: re.Match[str]) -> str:
        new = numbers.get(match.group(1))
        return f' id="{new}"' if new else ""

    svg = re.sub(r'\sid="([^"]+)"', renamed, svg)
    return re.sub(r'(href="#|url\(#)([^")]+)', lambda m: m[1] + numbers[m[2]], svg)


def _unwrapped(svg: str) -> str:
    """The drawing without groups that say nothing: those that have no attribute."""
    kept: list[bool] = []
    parts: list[str] = []
    for part in re.split(r"(<g(?: [^>]*)?>|</g>)", svg):
        is_end = part == "</g>"
        if part.startswith(("<g>", "<g ")) and not part.endswith("/>"):
            kept.append(part != "<g>")
        if part != "<g>" and not (is_end and not kept.pop()):
            parts.append(part)
    return "".join(parts)


def _classed(svg: str, name: str) -> str:
    """A style that several elements have, said once, under a class of this figure's own."""
    counted = Counter(re.findall(r' style="([^"]*)"', svg))
    shared = [style for style, n in counted.items() if n > 2]
    classes = {style: f"{name}_{i}" for i, style in enumerate(shared)}

    def classed(match: re.Match[str]) -> str:
        known = classes.get(match.group(1))
        return f' class="{known}"' if known else match.group()

    rules = "".join(f".{known}{{{style}}}" for style, known in classes.items())
    return f"<style>{rules}</style>" + re.sub(r' style="([^"]*)"', classed, svg)


def marked_points(drawn: Drawn) -> set[str]:
    """The ids of the points that a figure draws, see `reports.points.mark_of`."""
    return {match.group(1) for match in re.finditer(_point_pattern(drawn.name), drawn.svg)}


def _point_pattern(name: str) -> str:
    # A point that stands in several panels has its id numbered from the second on.
    return rf'<g id="{name}-(point-[^"]+?)(?:-\d+)?">'


def _with_marks(svg: str, name: str, marks: Mapping[str, Mark], owners: Sequence[str]) -> str:
    """Marks with their words and their row, and of every part whose it is."""
    number = {written(owner): i for i, owner in enumerate(owners)}

    def owned(name: str) -> str:
        return f' data-of="{number[name]}"' if name in number else ""

    def add(match: re.Match[str]) -> str:
        mark = marks.get(match.group(1))
        if mark is None:
            return match.group()
        row = "" if mark.row is None else f' data-row="{mark.row}"'
        words = f"<title>{escape(mark.words)}</title>" if mark.words else ""
        return f"<g{owned(written(mark.implementation))}{row}>{words}"

    svg = re.sub(_point_pattern(name), add, svg)
    return re.sub(rf'<g id="{owner_pattern(name)}">', lambda m: f"<g{owned(m.group(1))}>", svg)


def marks_of(found: Sequence[Point], row_of: Mapping[str, int]) -> dict[str, Mark]:
    """The mark of each point by its id: who, on what, the time and the part of the bound.

    `row_of`: the number of the table's row by that id.
    """
    return {p.mark: Mark(_words(p), p.implementation, row_of.get(p.mark)) for p in found}


def _words(p: Point) -> str:
    share = "" if p.share is None else f", {100 * p.share:.0f} % of its bound"
    flags = f" ({', '.join(p.flags)})" if p.flags else ""
    T_q, T_kv = count_name(p.problem.T_q), count_name(p.problem.T_kv)
    lengths = f"T={T_kv}" if T_q == T_kv else f"T_q={T_q} T_kv={T_kv}"
    size = f"{lengths} H={p.problem.H} d_h={p.problem.d_h}"
    return f"{p.implementation}, {size}: {quantity(p.time_s, 's')}{share}{flags}"
