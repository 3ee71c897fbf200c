#!/usr/bin/env bash
# Head against a base revision, on this machine and in this job: docs/ci/README.md.
#
#   docs/ci/ab.sh BASE OUT [--repo PATH] [--build COMMAND] [options of `python -m suites run`]
#
# Launches of both take turns: base, head, head, base. Counters are compared exactly, times by the gate.
# Without --repo both are of this checkout, each measured by itself; with it BASE is a revision of your
# repository, and this checkout measures both; --build is typed in either first. OUT gets comment.md,
# junit.xml and metrics.txt whatever the verdict. Exit codes are those of `results gate`: 0 pass,
# 1 regressed, 2 too few launches, 4 missing or not comparable, 5 broken or nothing compared.
set -euo pipefail
base=$1 out=$2
shift 2
repo="" build=""
while [ $# -gt 0 ]; do
  case $1 in
    --repo) repo=$2 && shift 2 ;;
    --build) build=$2 && shift 2 ;;
    *) break ;;
  esac
done
mkdir -p "$out"
out=$(cd "$out" && pwd)
here=$(cd "$(dirname "$0")/../.." && pwd)
python=${PY:-$here/.venv/bin/python}
head=$(cd "${repo:-$here}" && pwd)

before=$(mktemp -d)
trap 'git -C "$head" worktree remove --force "$before/base"; rm -rf "$before"' EXIT
git -C "$head" worktree add --quiet --detach "$before/base" "$base"
declare -A tree=([base]=$before/base [head]=$head)
for side in base head; do
  if [ -n "$build" ]; then (cd "${tree[$side]}" && eval "$build"); fi
done

turns=(base head head base)
launches=${LAUNCHES:-8}
for ((n = 0; n < 2 * launches; n++)); do
  side=${turns[n % 4]}
  harness=$here
  if [ -z "$repo" ]; then harness=${tree[$side]}; fi
  code=0
  (
    cd "${tree[$side]}"
    PYTHONPATH=$harness:${tree[$side]} "$python" -m suites run \
      --budget "${BUDGET:-smoke}" "$@" --store "$out/runs/$side" > "$out/$side.txt"
  ) || code=$?
  # 1 and 5 are cells that were wrong or broke: the gate names them.
  case $code in 0 | 1 | 5) ;; *) exit "$code" ;; esac
done

annotate=()
if [ -n "${GITHUB_ACTIONS:-}" ]; then annotate=(--github); fi
code=0
cd "$here"
"$python" -m results gate "$out/runs/base" "$out/runs/head" --markdown "$out/comment.md" \
  --junit "$out/junit.xml" --metrics "$out/metrics.txt" "${annotate[@]}" || code=$?
if [ -n "${GITHUB_STEP_SUMMARY:-}" ] && [ -f "$out/comment.md" ]; then
  cat "$out/comment.md" >> "$GITHUB_STEP_SUMMARY"
fi
exit "$code"
