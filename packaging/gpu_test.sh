#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu_test.sh BUILD: gpu.sh over the emulated driver, where every step can be taken, and without
# any driver, where each is left out with its reason.
set -uo pipefail

packaging=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(realpath "$1")
work=$build/gpu_test
failures=0
unset KEEL_CUDA_LIBRARY_FOLDER KEEL_EMULATED_CUDA

fail() { echo "FAILED: $*" >&2; failures=$((failures + 1)); }
# expect FILE TEXT...: each is in it.
expect() {
  local file=$1 text
  shift
  for text in "$@"; do
    grep -qE -- "$text" "$file" || { fail "no '$text' in $(basename "$file"):"; cat "$file" >&2; }
  done
}
# run STATUS NAME ARGUMENTS...: what it prints is in $work/NAME, its report in NAME.json and .md.
run() {
  local wanted=$1 name=$2 status=0
  shift 2
  timeout -k 10 300 "$packaging/gpu.sh" --root "$build" --output "$work/$name" "$@" \
    >"$work/$name" 2>&1 || status=$?
  ((status == wanted)) || { fail "$name ended with status $status"; cat "$work/$name" >&2; }
}

rm -rf "$work"
mkdir -p "$work"
trap 'rm -rf "$work"' EXIT

# ---- no driver ---------------------------------------------------------------------------

mkdir "$work/bin"
cat >"$work/bin/nvidia-smi" <<'TEXT'
#!/bin/sh
folder=$(dirname "$0")
case $* in
  --loop=*)
    echo $$ >"$folder/looks"
    exec sleep 3600 ;;
  *clocks_event_reasons*)  # as before 535
    echo 'Field "clocks_event_reasons.active" is not a valid field to query.'
    exit 2 ;;
  *-lms*)
    echo $$ >"$folder/samples"
    echo "1980, 2619, 650.5, 60, 0x0000000000000004"
    echo "345, 2619, 80.25, 41, 0x0000000000000001"
    echo "1755, 2619, [N/A], 64, 0x0000000000000024"
    echo "1800, 26"
    exec sleep 3600 ;;
esac
echo "GPU 9, 580.1, 00000000:01:00.0, 345 MHz, 2619 MHz, 1980 MHz, 2619 MHz, 69 W, 700 W, 33"
TEXT
chmod +x "$work/bin/nvidia-smi"
# PyTorch's wheels bring the vendor's libraries into a folder that no loader knows.
wheels=$work/site/nvidia
mkdir -p "$wheels/nccl/lib"
touch "$wheels/nccl/lib/libnccl.so.2"
ln -s /bin/true "$work/bin/ldconfig"
PYTHONPATH=$work/site PATH=$work/bin:$PATH KEEL_CUDA_LIBRARY_FOLDER=$work/none \
  KEEL_CUBLASLT_LIBRARY_FOLDER=$work/told run 0 bare
expect "$work/bare.md" "^- CUBLASLT library: of $work/told$"
if command -v python3 >/dev/null; then
  expect "$work/bare.md" "^- NCCL library: of $wheels/nccl/lib$"
fi
expect "$work/bare.md" '^- driver_version: 580.1$' '^- clocks.max.sm: 1980 MHz$'
# gone FILE WHO: whose number is in the file was there, and is no more.
gone() {
  local number
  number=$(cat "$work/bin/$1" 2>/dev/null)
  [[ $number ]] || fail "nobody $2"
  [[ ! $number || ! -e /proc/$number ]] || fail "who $2 is still there"
}
gone looks "kept the GPU awake"
for step in conform-cuda conform-vulkan sanitizer figures ring training; do
  expect "$work/bare" "^skipped  $step .* s  ."
  expect "$work/bare.md" "^\| $step \| skipped \| 0 \| .+ \|$"
done
for figure in calls/launch op/adamw/float32/bound op/softmax/bfloat16/compile \
  matmul/bfloat16/mlp_up/eager bridge_all_reduce vulkan_matmul; do
  expect "$work/bare.md" \
    "^\| cuda_$figure \| not measured: .+ \|  \|  \| at [a-z]+ [0-9.]+.* \| not measured \| .+ \|$"
  expect "$work/bare.json" "\"name\": \"cuda_$figure\""
done
expect "$work/bare.json" '"skipped": "not measured: ' '"emulated": false'

run 2 mistaken --no-such-option
expect "$work/mistaken" "no option '--no-such-option'"

# ---- the emulated driver --------------------------------------------------------------------

if [[ ! -e $build/lib/keel/plugins/libkeel_cuda.so ]]; then
  echo "the rest is left out: this build has no CUDA backend"
  exit $((failures > 0))
fi
run 0 emulated --emulated --quick
for step in conform-cuda figures ring training; do
  expect "$work/emulated.md" "^\| $step \| passed \| [0-9]+ \|"
done
expect "$work/emulated.md" '^\| ring \|.* on cuda:0,(vulkan:[0-9]+,)?cpu:0'
for step in conform-vulkan sanitizer; do
  expect "$work/emulated.md" "^\| $step \| skipped \| 0 \| .+ \|$"
done
expect "$work/emulated.json" '"emulated": true' '"certified": true' '"okay": true' '"quick": true'
expect "$work/emulated.md" '^\*\*Emulated\*\*' '^- \*\*cuda\*\* \(Emulated GPU.*, emulated\): null'
# What can be taken is, and no time of it is told.
for figure in calls/launch calls/copy calls/record bridge_all_reduce op/layer_norm/float32/bound \
  op/softmax/bfloat16/bound op/embedding/float32/bound; do
  expect "$work/emulated.md" \
    "^\| cuda_$figure \| taken, on an emulated chip \|  \|  \| at .+ \| not measured \| .+ \|$"
done
if grep -E '^\| cuda_.*[0-9] (ns|GB/s|GFLOP/s) [|[]' "$work/emulated.md"; then
  fail "an emulated chip's time is reported"
fi
# Without PyTorch, and with one that cannot compile, there is a line for each.
expect "$work/emulated.md" '^\| cuda_op/gelu/float32/eager \| (taken, on|not measured: ).+ \|$' \
  '^\| cuda_op/gelu/float32/compile \| (taken, on|not measured: ).+ \|$'

# A driver that fails in the middle: its steps fail, the others go on, and the report is there. By
# another name it is not known to be emulated: nvidia-smi is asked.
ln -s "$build/lib/keel/emulated/cuda" "$work/driver"
mkdir "$work/libraries"
ln -s "$work"/driver/*.so.* "$work/libraries/"
PATH=$work/bin:$PATH KEEL_CUDA_LIBRARY_FOLDER=$work/libraries KEEL_NCCL_LIBRARY_FOLDER=$work/libraries \
  KEEL_CUBLASLT_LIBRARY_FOLDER=$work/none KEEL_EMULATED_CUDA="faults=refuse:alloc@1+" \
  run 1 broken --quick
gone samples "sampled the clocks"
expect "$work/broken.md" \
  '^- clocks.sm, during the figures: 345, 1755, 1980 MHz: least, median and most of 3 samples$' \
  '^- power.draw, during the figures: 80.25, 80.25, 650.5 W: least, median and most of 2 samples$' \
  '^- temperature.gpu, during the figures: 41, 60, 64 C: ' \
  '^- clocks held down, during the figures: idle in 1, software power cap in 2, software thermal slowdown in 1 of 3 samples$'
expect "$work/broken.md" '^\| figures \| failed ' '^\| ring \| failed ' '^\| training \| failed '
expect "$work/broken.json" '"outcome": "failed"'

# A run that is killed has a report of the steps before.
mkdir "$work/temporary"
TMPDIR=$work/temporary "$packaging/gpu.sh" --root "$build" --output "$work/ended" --emulated --quick \
  >"$work/ended" 2>&1 &
run=$!
for ((i = 0; i < 1200; ++i)); do
  grep -q '^passed  *conform-cuda ' "$work/ended" && [[ -e $work/ended.md && -e $work/ended.json ]] && break
  sleep 0.1
done
kill -KILL $run && wait $run 2>/dev/null
expect "$work/ended.md" '^- unfinished: the run was ended before its next step$' \
  '^\| conform-cuda \| passed \|' '^- \*\*cuda\*\* '
for file in "$work"/{bare,emulated,broken}.md; do
  ! grep -q unfinished "$file" || fail "$file is of an unfinished run"
done

# Benchmarks that are killed: each figure has its line, as it has where nobody could take one. Those
# of full size would take the emulated chip hours.
KEEL_CUDA_LIBRARY_FOLDER=$build/lib/keel/emulated/cuda "$build/bin/keel_bench" --filter cuda_ \
  --json "$work/killed.json" --markdown "$work/killed.md" >/dev/null 2>&1 &
bench=$!
for ((i = 0; i < 1200; ++i)); do
  grep -q '"contenders"' "$work/killed.json" 2>/dev/null && break
  sleep 0.1
done
kill -KILL $bench && wait $bench 2>/dev/null
names() { grep -oE '"name": "cuda_[^"]+"' "$1" | sort; }
[[ $(names "$work/killed.json") == "$(names "$work/bare.json")" ]] ||
  fail "of the killed benchmarks there are $(names "$work/killed.json")"
expect "$work/killed.json" '"contenders"' '"skipped": "the run was ended before"'
expect "$work/killed.md" '^\| cuda_op/axpy/float32/bound \| skipped: the run was ended before '

((failures == 0)) && echo "gpu.sh takes every step"
exit $((failures > 0))
