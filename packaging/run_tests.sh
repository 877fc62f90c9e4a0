#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run [REGEX]: the bundled tests, or those whose name fits, against the Keel they lie beside.
# Prints the output of those that fail, and ends with a status other than 0 if any did.
set -uo pipefail

tests=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export KEEL_PLUGIN_PATH=$tests/../lib/keel/plugins KEEL_TEST_BIN=$tests/../bin
printed=$(mktemp)
trap 'rm -f "$printed"' EXIT

run=0
failed=()
while IFS=$'\t' read -r -a fields; do
  name=${fields[0]}
  [[ $name =~ ${1:-} ]] || continue
  run=$((run + 1))
  started=$SECONDS
  if env "${fields[@]:2}" timeout -k 10 600 "$tests/${fields[1]}" >"$printed" 2>&1 </dev/null; then
    echo "passed  $name  $((SECONDS - started)) s"
  else
    echo "FAILED  $name  (status $?)"
    cat "$printed"
    failed+=("$name")
  fi
done <"$tests/list.txt"

((run > 0)) || { echo "no test fits '$1'" >&2; exit 2; }
echo "$((run - ${#failed[@]})) of $run passed"
((${#failed[@]} == 0)) || { echo "failed: ${failed[*]}" >&2; exit 1; }
