#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bundle_test.sh BUILD: makes a bundle of the build, unpacks the tarballs, and runs them where
# there is nothing but glibc, and here beside libraries of the same names.
set -euo pipefail
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
unset KEEL_PLUGIN_PATH KEEL_BACKENDS

packaging=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(realpath "$1")
work=$build/bundle_test
failures=0

skip() { echo "skipped: $*"; exit 0; }
fail() { echo "FAILED: $*" >&2; failures=$((failures + 1)); }
# expect TEXT: what ran last printed it.
expect() { grep -q -- "$1" "$work/printed" || { fail "no '$1' in:"; cat "$work/printed" >&2; }; }

for program in patchelf xz unshare; do
  command -v $program >/dev/null || skip "$program is not installed"
done
as_root=()
((EUID == 0)) || as_root=(--map-root-user)
unshare "${as_root[@]}" --mount true 2>/dev/null || skip "this machine lets no one make a mount namespace"

# ---- the tarballs -----------------------------------------------------------------------

rm -rf "$work"
mkdir -p "$work/empty/proc"
trap 'rm -rf "$work"' EXIT
"$packaging/bundle.sh" "$build" "$work/made" --tests
tarballs=("$work"/made/*.tar.xz)
((${#tarballs[@]} == 2)) || fail "two tarballs expected: ${tarballs[*]}"
# The one without the tests has all that a machine with a GPU is asked for.
tar -tf "$work"/made/*-x86_64.tar.xz >"$work/printed"
for file in gpu keel_bench keel_gpu_report mixed_training peers/torch_ops.py; do expect "/bin/$file\$"; done
for tarball in "${tarballs[@]}"; do
  (($(stat -c %s "$tarball") < 60 * 1048576)) || fail "$tarball is larger than 60 MiB"
  tar -C "$work/empty" -xf "$tarball"
done
rm -rf "$work/made"
bundle=$(cd "$work"/empty/keel-*-linux-x86_64 && pwd)
inside=${bundle#"$work/empty"}

[[ -f $bundle/bin/peers/torch_ops.py ]] || fail "the benchmarks' PyTorch is missing"
while read -r soname _; do
  [[ -e $bundle/lib/$soname || -e $bundle/lib/fallback/$soname ]] || fail "README lists $soname"
done < <(grep -E '^  lib\S+\.so\.[0-9]+ ' "$bundle/README.txt")
for library in "$bundle"/lib/*.so.* "$bundle"/lib/fallback/*; do
  name=$(basename "$library")
  [[ $name == libkeel.so* ]] || grep -q "^  $name " "$bundle/README.txt" ||
    fail "README does not list $name"
done

# A program of somebody else, which knows where libkeel is and no more.
cc "$packaging/../samples/hello_device/hello_device.c" -I"$bundle/include" -L"$bundle/lib" -lkeel \
  -Wl,--enable-new-dtags,-rpath,"$inside/lib:$bundle/lib" \
  -o "$bundle/bin/linked" || fail "linking a program to the bundle"

# ---- in an empty root: glibc's own files and /proc -----------------------------------------

mkdir -p "$work/empty/lib64" "$work/empty/lib"
ln -s ../lib64 "$work/empty/lib/x86_64-linux-gnu"  # where Debian's loader looks by itself
for library in ld-linux-x86-64.so.2 libc.so.6 libm.so.6 libmvec.so.1 libdl.so.2 libpthread.so.0 \
  librt.so.1; do
  cp -L "$(cc -print-file-name=$library)" "$work/empty/lib64/"
done

# alone PROGRAM ARGUMENTS...: runs it there, with $settings as its environment; what it printed
# is in $work/printed.
settings=()
alone() {
  local program=$1
  shift
  env -i PATH="$PATH" "${settings[@]}" timeout 300 unshare "${as_root[@]}" --mount -- bash -c \
    'mount --rbind /proc "$0/proc" && exec chroot "$0" "$@"' \
    "$work/empty" "$inside/$program" "$@" >"$work/printed" 2>&1 ||
    { fail "$program $* ended with status $? in an empty root:"; cat "$work/printed" >&2; }
}

alone bin/keel devices
expect '^cpu:0 '
expect '^hip .*no HIP runtime'
expect '^kunlun .*no XRE'
expect '^ascend .*no Ascend runtime'
expect '^level_zero .*no Level Zero loader'
# Its loader is in the bundle, and its drivers are not.
[[ ! -e $bundle/lib/keel/plugins/libkeel_vulkan.so ]] || expect '^vulkan .*no Vulkan driver'
if [[ -e $bundle/lib/keel/plugins/libkeel_cuda.so ]]; then
  expect '^cuda .*no CUDA driver'
  alone bin/keel devices --emulated
  expect '^cuda:1 '
fi
alone bin/keel conform run --backend cpu --profile quick --jobs 1 --level core,async,memory,ops
expect 'certified'
alone bin/hello_device
expect '^cpu:0 .* 1024 of 1024 elements are 42'
alone bin/linked
expect '^cpu:0 .* 1024 of 1024 elements are 42'
alone bin/vector_add
settings=("KEEL_PLUGIN_PATH=$inside/lib/keel/plugins")
alone tests/event_test
expect 'PASSED'

# ---- on this machine: the libraries that are ours, although there are others ---------------

LD_DEBUG=files KEEL_BACKENDS=cpu "$bundle/bin/linked" >"$work/printed" 2>&1
sed -n 's/.*calling init: //p' "$work/printed" | sort -u >"$work/loaded"
for library in libkeel.so.0 libdnnl.so.2; do
  [[ -e $bundle/lib/$library ]] || continue
  # What a plugin needs is named by way of the descriptor of its folder.
  grep -qE "^($bundle/lib|/proc/self/fd/[0-9]+/../..)/$library\$" "$work/loaded" ||
    fail "$library was not loaded from the bundle"
done
while read -r library; do
  case $library in
    "$bundle"/* | /proc/self/fd/*) ;;
    *)
      name=$(basename "$library")
      [[ -e $work/empty/lib64/$name || -e $bundle/lib/fallback/$name ]] ||
        fail "$library was loaded: neither glibc nor in lib/fallback"
      ;;
  esac
done <"$work/loaded"

# The same devices as the build has, so that no library of the bundle is in a driver's way.
devices() { timeout 60 "$1/bin/keel" devices | grep -oE '^[a-z0-9_]+:[0-9]+ ' || true; }
[[ $(devices "$bundle") == "$(devices "$build")" ]] ||
  fail "devices here: $(devices "$bundle"), of the build: $(devices "$build")"

"$bundle/tests/run" '^(core_threads_test|event_test|conformance_test)$' >"$work/printed" 2>&1 ||
  { fail "tests/run:"; cat "$work/printed" >&2; }
expect '3 of 3 passed'

if [[ -e $bundle/lib/keel/plugins/libkeel_cuda.so ]]; then
  "$bundle/bin/gpu" --emulated --quick --output "$work/gpu" >"$work/printed" 2>&1 ||
    { fail "bin/gpu:"; cat "$work/printed" >&2; }
  expect '^passed  *ring '
fi

((failures == 0)) && echo "the bundle runs"
exit $((failures > 0))
