#!/usr/bin/env bash
# Any other CI, or a terminal: what the recipes do, in the order of what is cheapest to know.
#
#   docs/ci/shell.sh [BASE]
set -euo pipefail
cd "$(dirname "$0")/../.."
make install

# Is every implementation right? Against float64, gradients included.
.venv/bin/python -m impls check
# What the Triton kernels compile to: exact, and no GPU is needed.
docs/ci/static.sh
# Head against base: counters exactly, times by launches that take turns.
docs/ci/ab.sh "${1:-HEAD~1}" reports/out/gate
