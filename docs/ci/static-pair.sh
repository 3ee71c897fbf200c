#!/usr/bin/env bash
# A Triton kernel of yours, compiled for GPUs that are not here: as it is against as it was.
#
#   docs/ci/static-pair.sh REPO BASE OUT FILE.py:NAME --signature "*fp32,…" --constants BLOCK=1024
#
# REPO is its repository, FILE.py is told from there, BASE is a revision of it. Exit codes are those of
# `results gate --static`; a kernel that BASE has not, or that did not compile there, is new, and passes.
set -euo pipefail
repo=$(cd "$1" && pwd) base=$2 out=$3 kernel=$4
shift 4
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$(dirname "$0")/../.."
python=${PY:-.venv/bin/python}

before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
git -C "$repo" archive "$base" | tar -x -C "$before"
if [ ! -f "$before/${kernel%%:*}" ]; then
  echo "new in head, nothing to compare it with: $kernel"
  exit 0
fi
"$python" -m suites static --kernel "$repo/$kernel" --store "$out/head" "$@" > "$out/head.txt"
code=0
"$python" -m suites static --kernel "$before/$kernel" --store "$out/base" "$@" > "$out/base.txt" || code=$?
case $code in
  # 1: not for every GPU: the gate compares the others.
  0 | 1) ;;
  2)
    echo "base does not compile it, nothing to compare it with: $kernel"
    exit 0
    ;;
  *) exit "$code" ;;
esac
# OUT may hold the runs of another time.
newest() {
  local found="" each
  for each in "$@"; do [ "$found" -nt "$each" ] || found=$each; done
  printf '%s\n' "$found"
}
base_run=$(newest "$out"/base/*/*) head_run=$(newest "$out"/head/*/*)
code=0
table=$("$python" -m results gate --static "$base_run" "$head_run") || code=$?
printf '%s\n' "$table"
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
  printf '%s\n' "$table" | sed 's/^/    /' >> "$GITHUB_STEP_SUMMARY"
fi
exit "$code"
