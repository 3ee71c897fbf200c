"""A figure's SVG made fit to stand inside a page: small, named, with a tooltip on each point."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape

from reports.figures import Drawn
from reports.points import Point
from reports.style import count_name, quantity

# Verdana has the letter widths of DejaVu Sans, with which the labels were placed.
_FONT = "'DejaVu Sans',Verdana,sans-serif"


def inline_svg(drawn: Drawn, tooltips: Mapping[str, str]) -> str:
    """The `<svg>` element alone, of fluid width; `tooltips` are texts by a point's own id."""
    svg = drawn.svg[drawn.svg.index("<svg") :]
    size = re.match(r'<svg[^>]*?width="([\d.]+)pt"[^>]*?viewBox="([^"]+)"[^>]*>', svg)
    assert size is not None
    body = _with_tooltips(svg[size.end() :], drawn.name, tooltips)
    body = _short_ids(_smaller(body), drawn.name)
    label = escape(f"{drawn.title}: {drawn.alternative}")
    # matplotlib's points are 1/72 inch, the page's pixels 1/96.
    width_px = round(float(size.group(1)) * 4 / 3)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'viewBox="{size.group(2)}" role="img" aria-label="{label}" stroke-linejoin="round" '
        f'style="max-width:{width_px}px;font-family:{_FONT}">{body}'
    )


def _smaller(svg: str) -> str:
    """The same drawing in fewer letters, and without what would reach beyond it."""
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # A style element would hold for the whole page.
    svg = re.sub(r"<style.*?</style>", "", svg, flags=re.DOTALL)
    # All but the fill stands in the marker's definition already.
    svg = re.sub(r'(<use [^>]*)style="fill: ([^;"]+)[^"]*"', r'\1fill="\2"', svg)
    svg = re.sub(r"<[^>]*>", lambda m: _smaller_tag(m.group()), svg)
    return re.sub(r">\s+<", "><", svg).strip()


def _smaller_tag(tag: str) -> str:
    """One tag in fewer letters; the text between tags is never touched."""
    tag = re.sub(r' transform="rotate\(-?0 [^"]*\)"', "", tag)
    tag = re.sub(r"-?\d+\.\d{3,}", lambda m: f"{float(m.group()):.2f}", tag)
    tag = tag.replace("font-family: 'DejaVu Sans'; ", "").replace("text-anchor: start; ", "")
    return re.sub(r"\s+", " ", tag).replace("; ", ";").replace(": ", ":")


def _short_ids(svg: str, name: str) -> str:
    """Ids that something refers to, numbered; the others tell nobody anything and go."""
    used = list(dict.fromkeys(re.findall(r'(?:href="#|url\(#)([^")]+)', svg)))
    numbers = {old: f"{name}-{i}" for i, old in enumerate(used)}

    def renamed(match: re.Match[str]) -> str:
        new = numbers.get(match.group(1))
        return f' id="{new}"' if new else ""

    svg = re.sub(r'\sid="([^"]+)"', renamed, svg)
    return re.sub(r'(href="#|url\(#)([^")]+)', lambda m: m[1] + numbers[m[2]], svg)


def _with_tooltips(svg: str, name: str, tooltips: Mapping[str, str]) -> str:
    def add(match: re.Match[str]) -> str:
        text = tooltips.get(match.group(1))
        return match.group() + (f"<title>{escape(text)}</title>" if text else "")

    # A point that stands in several panels has its id numbered from the second on.
    return re.sub(rf'<g id="{name}-(point-.+?)(?:-\d+)?">', add, svg)


def tooltips(found: Sequence[Point]) -> dict[str, str]:
    """What hovering over a point tells: who, on what, the time and the part of the bound."""
    texts: dict[str, str] = {}
    for p in found:
        share = "" if p.share is None else f", {100 * p.share:.0f} % of its bound"
        flags = f" ({', '.join(p.flags)})" if p.flags else ""
        T_q, T_kv = count_name(p.problem.T_q), count_name(p.problem.T_kv)
        lengths = f"T={T_kv}" if T_q == T_kv else f"T_q={T_q} T_kv={T_kv}"
        size = f"{lengths} H={p.problem.H} d_h={p.problem.d_h}"
        rate = quantity(p.flop_per_s, "FLOP/s")
        texts[f"point-{p.cell}-{p.suite}"] = (
            f"{p.implementation}, {size}: {quantity(p.time_s, 's')}, {rate}{share}{flags}"
        )
    return texts
