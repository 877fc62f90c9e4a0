#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# aarch64.sh BUILD: builds for aarch64 in BUILD and runs the tests of core, of collectives' shared
# memory and of reductions under qemu-user. Hosts of Ascend chips are Arm, whose processors order
# memory less strictly than x86: qemu keeps an Arm program's barriers, but runs it on this processor,
# so that a barrier that is missing shows on real hardware only.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$1
sysroot=$(realpath -m "$build/sysroot")

# Debian's arm64 packages, unpacked: nothing of this machine is changed, and nothing of them is run.
packages=libc6-dev,libstdc++-12-dev,libfmt-dev,libssl-dev,libgtest-dev,libhwloc-dev,libhwy-dev
packages+=,nlohmann-json3-dev,libcli11-dev
if [[ ! -e $sysroot/complete ]]; then
  rm -rf "$sysroot"
  mkdir -p "$build"
  suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
  if ! mmdebstrap --quiet --variant=extract --architectures=arm64 --include="$packages" \
      "$suite" "$sysroot" >"$build/sysroot.log" 2>&1; then
    cat "$build/sysroot.log" >&2
    exit 1
  fi
  touch "$sysroot/complete"
fi

# Tests of threads, atomics and shared memory, and of reductions. Not of the CPU's kernels yet: under
# qemu Gemm.MultipliesInParts fails by Highway's EMU128 and SCALAR, which no Arm processor is given,
# and the cause has not been found. Its NEON kernels pass.
tests=(core_unit_test core_threads_test block_store_test record_pool_test stream_end_test event_test
       gate_test memory_test handle_race_test collectives_unit_test control_segment_test
       recorder_test deadlock_detector_test collectives_test)

cmake -S . -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/aarch64.cmake" \
  -DKEEL_SYSROOT="$sysroot" -DCMAKE_BUILD_TYPE=Release -DKEEL_BUILD_BENCH=OFF \
  -DKEEL_BUILD_SAMPLES=OFF >"$build/configure.log" 2>&1 ||
  { cat "$build/configure.log" >&2; exit 1; }
ninja -C "$build" --quiet "${tests[@]}" keel_cpu
# Plans of algorithms for every number of ranks: arithmetic, and a quarter of an hour under qemu.
export GTEST_FILTER='-StepPlans.*'
expression=$(IFS='|'; echo "^(${tests[*]})\$")
ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel 2 \
  --output-junit ctest.xml -R "$expression"
