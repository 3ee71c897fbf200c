#!/usr/bin/env bash
# One night of a machine that keeps its runs: docs/ci/README.md.
#
#   ATTNBENCH_STORE=~/attnbench-runs docs/ci/nightly.sh OUT [suites and options of `suites run`]
#
# Twenty launches against what was accepted on this machine, then the history of all nights. OUT gets
# comment.md, junit.xml and the trend page. Exit codes are those of `results gate` and `history`.
set -euo pipefail
out=$1
shift
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$(dirname "$0")/../.."
python=${PY:-.venv/bin/python}

# 1 and 5 are cells that were wrong or broke: the gate names them.
code=0
"$python" -m suites run "$@" --launches 20 || code=$?
case $code in 0 | 1 | 5) ;; *) exit "$code" ;; esac
code=0
"$python" -m results gate --baseline --markdown "$out/comment.md" --junit "$out/junit.xml" || code=$?
"$python" -m results history --alert || code=$((code ? code : $?))
"$python" -m reports history --out "$out/history" || code=$((code ? code : $?))
exit "$code"
