#!/usr/bin/env bash
# Our Triton kernels compiled for GPUs that are not here, against what was accepted: docs/ci/README.md.
#
#   docs/ci/static.sh
#
# Registers, spills, shared memory and the hot loop are exact on any CPU. Exit codes are those of
# `results gate --static`.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${PY:-.venv/bin/python}

# 1 is a kernel that does not compile: the gate says which, and fails.
code=0
"$python" -m suites static || code=$?
[ "$code" -le 1 ] || exit "$code"
code=0
table=$("$python" -m results gate --static) || code=$?
printf '%s\n' "$table"
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
  printf '%s\n' "$table" | sed 's/^/    /' >> "$GITHUB_STEP_SUMMARY"
fi
exit "$code"
