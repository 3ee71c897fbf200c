"""The pictures of pages in docs/: `python -m tests.page_pictures --machine KEY RUN BASE HEAD`.

RUN's page, BASE and HEAD side by side, and the history of a machine, each as a window of a usual
size shows it. Needs Chromium; the numbers in the pictures are those of the store.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from reports.__main__ import main as reports
from tests.chromium import Chromium

DOCS = Path(__file__).resolve().parents[1] / "docs"
_WIDTH, _HEIGHTS = 1100, {"run": 1680, "compare": 1140, "history": 900}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write page-run.png, page-compare.png and page-history.png, paths to stdout."""
    parser = argparse.ArgumentParser(prog="python -m tests.page_pictures", description=__doc__)
    parser.add_argument("run", metavar="RUN", help="the run whose page is shown")
    parser.add_argument("base", metavar="BASE", help="the base of the comparison")
    parser.add_argument("head", metavar="HEAD", help="what is compared with it")
    parser.add_argument("--machine", metavar="KEY", required=True, help="whose history is shown")
    parser.add_argument("--store", metavar="FOLDER", help="the folder of runs")
    parser.add_argument("--out", metavar="FOLDER", type=Path, default=DOCS)
    options = parser.parse_args(arguments)
    store = ["--store", options.store] if options.store else []
    browser = Chromium()
    with tempfile.TemporaryDirectory() as folder:
        for name, command in (
            ("run", [options.run]),
            ("compare", ["compare", options.base, options.head]),
            ("history", ["history", "--machine", options.machine]),
        ):
            out = Path(folder) / name
            reports([*command, *store, "--out", str(out)])
            (page,) = out.rglob("*.html")
            browser.size(_WIDTH, _HEIGHTS[name])
            browser.open(page)
            file = options.out / f"page-{name}.png"
            browser.picture(file)
            print(file)
    browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
