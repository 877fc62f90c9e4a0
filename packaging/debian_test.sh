#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# debian_test.sh BUILD: makes the Debian packages of the build, looks at what they say, and runs
# Keel from a root that they were unpacked into.
set -euo pipefail
export LC_ALL=C

build=$(realpath "$1")
work=$build/debian_test
root=$work/root

skip() { echo "skipped: $*"; exit 0; }
fail() { echo "FAILED: $*" >&2; exit 1; }
field() { dpkg-deb --field "$(package "$1")" "$2"; }
package() { echo "$work/packages/$1"_*.deb; }
# expect PACKAGE FIELD TEXT
expect() { [[ $(field "$1" "$2") == *"$3"* ]] || fail "$1: $2 is '$(field "$1" "$2")', without $3"; }

for program in dpkg-deb dpkg-shlibdeps file cpack; do
  command -v $program >/dev/null || skip "$program is not installed"
done

rm -rf "$work"
mkdir -p "$root"
trap 'rm -rf "$work"' EXIT
(cd "$build" && cpack -G DEB -B "$work/packages" >"$work/printed" 2>&1) ||
  { cat "$work/printed" >&2; fail "cpack"; }

names=(libkeel0 keel-tools libkeel-dev keel-doc keel-backend-ascend keel-backend-cpu
       keel-backend-hip keel-backend-kunlun keel-backend-level-zero)
[[ ! -e $build/lib/keel/plugins/libkeel_vulkan.so ]] || names+=(keel-backend-vulkan)
[[ ! -e $build/lib/keel/plugins/libkeel_cuda.so ]] || names+=(keel-backend-cuda)
for name in "${names[@]}"; do
  [[ -f $(package "$name") ]] || fail "there is no package $name"
  [[ $(field "$name" Version) == "$(field libkeel0 Version)" ]] || fail "$name: its version"
done
[[ $(echo "$work"/packages/*skeleton*) == *'*'* ]] || fail "the template is packaged"

# What each needs is what its own files are linked to, and the libkeel0 of the same build.
expect libkeel0 Depends 'libssl3'
expect keel-tools Depends "libkeel0 (= $(field libkeel0 Version))"
expect libkeel-dev Depends "libkeel0 (= $(field libkeel0 Version))"
expect keel-backend-cpu Depends 'libhwy1'
[[ $(field libkeel0 Depends) != *libhwy* ]] || fail "libkeel0 needs what the CPU backend needs"
dpkg-deb --ctrl-tarfile "$(package libkeel0)" | tar -xOf - ./triggers | grep -q ldconfig ||
  fail "libkeel0 does not have ldconfig run"

# Everything that the packages name can be had together.
if command -v apt-get >/dev/null; then
  apt-get --simulate -o Debug::NoLocking=1 install "$work"/packages/*.deb >"$work/printed" 2>&1 ||
    { cat "$work/printed" >&2; fail "apt would not install them"; }
fi

devices() { timeout 60 "$root/usr/bin/keel" devices >"$work/printed" 2>&1 || true; }
unset KEEL_PLUGIN_PATH KEEL_BACKENDS
dpkg-deb --extract "$(package libkeel0)" "$root"
dpkg-deb --extract "$(package keel-tools)" "$root"
devices
! grep -q '^cpu:0 ' "$work/printed" || fail "a CPU device without its package"
dpkg-deb --extract "$(package keel-backend-cpu)" "$root"
devices
grep -q '^cpu:0 ' "$work/printed" || { cat "$work/printed" >&2; fail "no CPU device"; }

# No file is in two packages.
for name in "${names[@]}"; do
  dpkg-deb --contents "$(package "$name")" | awk '$1 !~ /^d/ {print $6}'
done | sort | uniq -d >"$work/printed"
[[ ! -s $work/printed ]] || fail "in two packages: $(cat "$work/printed")"

echo "${#names[@]} packages"
