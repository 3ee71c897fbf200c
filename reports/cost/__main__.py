"""`python -m reports.cost`: the figures of a comparison that `python -m impls cost` counted."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from reports.backend import without_backend

USAGE = 2
_EXAMPLES = """\
examples:
  python -m impls cost --compare mha,gqa8,mqa,mla --T 1k:2M --json > comparison.json
  python -m reports.cost comparison.json --out figures

exit codes: 0 drawn, 2 usage, or no comparison in the file
"""


@without_backend()
def main(arguments: Sequence[str] | None = None) -> int:
    """Write each figure as PNG and SVG, paths to stdout → 0, or 2 for no comparison."""
    options = _parser().parse_args(arguments)
    # matplotlib takes a second to import; wrong usage is told before that.
    from reports.cost import cache, core_share, tokens
    from reports.cost.comparison import read_comparison
    from reports.figures import PNG_DPI, drawing_rules

    try:
        text = sys.stdin.read() if options.file == "-" else Path(options.file).read_text("utf-8")
        comparison = read_comparison(json.loads(text))
    except (OSError, ValueError) as error:
        print(f"reports.cost: {options.file}: {error}", file=sys.stderr)
        return USAGE
    options.out.mkdir(parents=True, exist_ok=True)
    for module in (cache, core_share, tokens):
        name = module.__name__.rpartition(".")[2]
        with drawing_rules():
            figure = module.draw(comparison)
            if figure is None:
                print(f"reports.cost: no {name}: no device's rates are known", file=sys.stderr)
                continue
            for kind, told in (("png", {"Software": "attnbench"}), ("svg", {"Date": None})):
                path = options.out / f"cost-{name.replace('_', '-')}.{kind}"
                figure.savefig(path, dpi=PNG_DPI, metadata=told)
                print(path)
            figure.clear()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m reports.cost",
        description="Draw a comparison: cache, core's share, tokens a second. Needs no torch.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE", help="the comparison's JSON, - for stdin")
    parser.add_argument(
        "--out", metavar="FOLDER", type=Path, default=Path(), help="where (default: here)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
