#!/usr/bin/env bash
# Head against a base revision, on this machine and in this job: docs/ci/README.md.
#
#   docs/ci/ab.sh BASE OUT [options of `python -m suites ab`]
#
# Launches of both take turns. Counters are compared exactly, times by the gate. Without --repo both are of
# this checkout, each measured by itself; with it BASE is a revision of your repository, and this checkout
# measures both; --build is typed in either first. OUT gets comment.md, junit.xml and metrics.txt. Exit codes
# are those of `suites ab`: 0 pass, 1 regressed, 2 usage, 4 missing or not comparable, 5 broken or nothing
# compared.
set -euo pipefail
base=$1 out=$2
shift 2
mkdir -p "$out"
out=$(cd "$out" && pwd)
here=$(cd "$(dirname "$0")/../.." && pwd)
python=${PY:-$here/.venv/bin/python}

annotate=()
if [ -n "${GITHUB_ACTIONS:-}" ]; then annotate=(--github); fi
code=0
# -P: a repository may have a folder `suites` too.
PYTHONPATH=$here "$python" -P -m suites ab "$base" --slower-only --time-limit "${TIME_LIMIT:-8m}" \
  --markdown "$out/comment.md" --junit "$out/junit.xml" --metrics "$out/metrics.txt" \
  "${annotate[@]}" "$@" || code=$?
if [ -n "${GITHUB_STEP_SUMMARY:-}" ] && [ -f "$out/comment.md" ]; then
  cat "$out/comment.md" >> "$GITHUB_STEP_SUMMARY"
fi
exit "$code"
