#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# without_cuda_test.sh SOURCE WORK: the project can be configured where CUDA's headers are not, or
# are too old: its backend is left out, with a line that says so, and the rest is there.
set -uo pipefail
export LC_ALL=C

source=$1
work=$2
failures=0
rm -rf "$work"
mkdir -p "$work/old"
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; failures=$((failures + 1)); }

# configure HEADERS WHY: with CUDA's headers in that folder.
configure() {
  local build=$work/build
  rm -rf "$build"
  cmake -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DKEEL_BUILD_TESTS=OFF \
    -DKEEL_BUILD_SAMPLES=OFF -DKEEL_CUDA_INCLUDE="$1" >"$work/said" 2>&1 ||
    fail "with $1 there is no configuration"
  for line in "cuda backend left out: $2" "CUDA figures left out of the benchmarks: $2" \
    "cuda_matmul left out of the benchmarks: $2"; do
    grep -qF -- "-- $line" "$work/said" || fail "with $1 it does not say '$line'"
  done
  grep -q 'libkeel_cpu\.so' "$build/build.ninja" || fail "with $1 there is no backend cpu"
  ! grep -qE 'libkeel_cuda\.so|libcuda\.so' "$build/build.ninja" || fail "with $1 there is one"
  ((failures == 0)) || cat "$work/said" >&2
}

configure /nowhere "cuda.h and cudaTypedefs.h not found"
# What stands in for what is left out is compiled nowhere else.
for file in bench/raw_cuda_missing.cc bench/cublas_peer_missing.cc kernels/gpu/no_image.cc \
  backends/cuda/ccl_table_missing.cc backends/gpu/no_library_products.cc; do
  "${CXX:-c++}" -std=c++20 -fsyntax-only -I"$source" -I"$source/include" "$source/$file" ||
    fail "$file does not compile"
done
echo '#define CUDA_VERSION 12030' >"$work/old/cuda.h"
configure "$work/old" "$work/old/cuda.h is older than CUDA 12.4"

((failures == 0)) && echo "the project is configured without CUDA"
exit $((failures > 0))
