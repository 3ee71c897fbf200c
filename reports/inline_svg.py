"""A figure's SVG made fit to stand inside a page: small, named, with a tooltip on each point."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape

from reports.figures import Drawn
from reports.points import Point
from reports.style import count_name, quantity

# What tells something to a reader's tools; matplotlib's own ids ("line2d_12") tell nothing.
_KEPT = re.compile(r"-(point|roof|ridge|bound)-")


def inline_svg(drawn: Drawn, tooltips: Mapping[str, str]) -> str:
    """The `<svg>` element alone, of fluid width; `tooltips` are texts by a point's own id."""
    svg = drawn.svg[drawn.svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # A style element would reach beyond the figure, over the whole page.
    svg = re.sub(r"<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' transform="rotate\(-?0 [^"]*\)"', "", svg)
    svg = re.sub(r"-?\d+\.\d{3,}", lambda m: f"{float(m.group()):.2f}", svg)
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    svg = re.sub(r' id="([^"]+)"', lambda m: m.group() if _is_kept(m.group(1), used) else "", svg)
    svg = _with_tooltips(svg, drawn.name, tooltips)
    svg = re.sub(r"\s*\n\s*", " ", svg).replace("> <", "><")
    svg = svg.replace("'DejaVu Sans'", "'DejaVu Sans',Verdana,sans-serif")
    title = escape(f"{drawn.title}: {drawn.alternative}")
    size = re.match(r'<svg[^>]*?width="([\d.]+)pt"[^>]*?viewBox="([^"]+)"[^>]*>', svg)
    assert size is not None
    width_px = round(float(size.group(1)) * 4 / 3)
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'viewBox="{size.group(2)}" role="img" aria-label="{title}" '
        f'style="max-width:{width_px}px" stroke-linejoin="round">'
    )
    return opening + svg[size.end() :].strip()


def _is_kept(name: str, used: set[str]) -> bool:
    return name in used or bool(_KEPT.search(name))


def _with_tooltips(svg: str, name: str, tooltips: Mapping[str, str]) -> str:
    def add(match: re.Match[str]) -> str:
        text = tooltips.get(match.group(1))
        return match.group() + (f"<title>{escape(text)}</title>" if text else "")

    # A point that stands in several panels has its id numbered from the second on.
    return re.sub(rf'<g id="{name}-(point-.+?)(?:-\d+)?">', add, svg)


def tooltips(found: list[Point]) -> dict[str, str]:
    """What hovering over a point tells: who, on what, the time and the part of the bound."""
    texts: dict[str, str] = {}
    for p in found:
        share = "" if p.share is None else f", {100 * p.share:.0f} % of its bound"
        flags = f" ({', '.join(p.flags)})" if p.flags else ""
        size = f"T={count_name(p.problem.T_kv)} H={p.problem.H} d_h={p.problem.d_h}"
        rate = quantity(p.flop_per_s, "FLOP/s")
        texts[f"point-{p.cell}-{p.suite}"] = (
            f"{p.implementation}, {size}: {quantity(p.time_s, 's')}, {rate}{share}{flags}"
        )
    return texts
