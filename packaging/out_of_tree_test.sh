#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# out_of_tree_test.sh BUILD: installs the build under a prefix and goes a vendor's way from
# there: a project of its own finds the package, builds a plugin, and the installed command
# certifies it. Then a framework's: programs that link libkeel, and libkeel_parallel with it.
set -euo pipefail
export LC_ALL=C

source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(realpath "$1")
work=$build/out_of_tree_test
prefix=$work/prefix
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }

fail() { echo "FAILED: $*" >&2; exit 1; }
# build_project SOURCE FOLDER [OPTIONS...]
build_project() {
  local project=$1 folder=$2
  shift 2
  cmake -S "$project" -B "$folder" -G Ninja --no-warn-unused-cli -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_C_COMPILER="$(cached CMAKE_C_COMPILER)" \
    -DCMAKE_CXX_COMPILER="$(cached CMAKE_CXX_COMPILER)" "$@" >"$work/printed" ||
    { cat "$work/printed" >&2; fail "configuring $project"; }
  cmake --build "$folder" >"$work/printed" || { cat "$work/printed" >&2; fail "building $project"; }
}
# conform ARGUMENTS...: the installed command; what it prints is in $work/printed.
conform() {
  timeout 300 "$prefix/bin/keel" conform "$@" >"$work/printed" 2>&1 ||
    { cat "$work/printed" >&2; fail "keel conform $*"; }
}
exports() { nm -D --defined-only "$1" | awk '{print $3}'; }

rm -rf "$work"
mkdir -p "$work"
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$prefix" >/dev/null
unset KEEL_PLUGIN_PATH KEEL_BACKENDS

# Each relative link of an installed page leads to a file of the installation.
while IFS= read -r page; do
  while IFS= read -r link; do
    [[ -e $(dirname "$page")/$link ]] || fail "${page#"$prefix"/}: no file $link"
  done < <(grep -oE '\]\([^)#: ]+[)#]' "$page" | sed 's/^](//; s/.$//')
done < <(find "$prefix/share" -name '*.md')

# The first commands of the porting guide, to the letter.
mkdir "$work/guide"
sed -n '/^```$/,/^```$/p' "$prefix/share/doc/keel/porting.md" |
  sed -e '1d' -e '/^```$/,$d' -e "s|<prefix>|$prefix|g" >"$work/guide/commands"
grep -q 'keel conform run' "$work/guide/commands" || fail "the porting guide has no commands"
(cd "$work/guide" && CMAKE_GENERATOR=Ninja CXX=$(cached CMAKE_CXX_COMPILER) \
  bash -e commands >"$work/printed" 2>&1) ||
  { cat "$work/guide/commands" "$work/printed" >&2; fail "the porting guide's commands"; }
grep -qE '^null .* yes$' "$work/printed" || { cat "$work/printed" >&2; fail "null level"; }

# The sample as it is installed: nothing of this tree is within reach.
cp -r "$prefix/share/keel/out_of_tree_plugin" "$work/"
build_project "$work/out_of_tree_plugin" "$work/plugin" -DCMAKE_CXX_FLAGS=-Werror
plugin=$work/plugin/libkeel_tinychip.so
[[ $(exports "$plugin") == keel_plugin_query_v0 ]] || fail "exported: $(exports "$plugin")"
! nm -D --undefined-only "$plugin" | grep ' keel_' || fail "the plugin needs symbols of Keel"
conform run --plugin "$plugin" --level null,core,async,memory,ops,multi_device \
  --certificate "$work/tinychip.json"
conform verify "$work/tinychip.json"
for level in null core async memory ops multi_device; do
  grep -q "$level" "$work/printed" || fail "the certificate does not have $level"
done
conform verify "$work/tinychip.json" --rerun

# Put where plugins are looked for, it is found by name; a certificate of another file is none.
install -m 644 "$plugin" "$prefix/lib/keel/plugins/"
"$prefix/bin/keel" devices | grep -q '^tinychip:0 ' || fail "keel devices does not list tinychip"
printf 'x' >>"$plugin"
if "$prefix/bin/keel" conform verify "$work/tinychip.json" >/dev/null 2>&1; then
  fail "a certificate holds for a plugin that was changed"
fi

mkdir "$work/program"
cp "$source/samples/hello_device/hello_device.c" "$source/samples/hello_mesh/hello_mesh.cc" \
  "$work/program/"
cat >"$work/program/CMakeLists.txt" <<'TEXT'
cmake_minimum_required(VERSION 3.25)
project(program LANGUAGES C CXX)
find_package(Keel REQUIRED)
add_executable(hello_device hello_device.c)
target_link_libraries(hello_device PRIVATE Keel::keel)
add_executable(hello_mesh hello_mesh.cc)
target_link_libraries(hello_mesh PRIVATE Keel::parallel)
TEXT
build_project "$work/program" "$work/program/build"
KEEL_BACKENDS=cpu,tinychip "$work/program/build/hello_device" >"$work/printed"
(($(grep -c '1024 of 1024 elements are 42' "$work/printed") == 2)) ||
  { cat "$work/printed" >&2; fail "hello_device on cpu and tinychip"; }
KEEL_BACKENDS=cpu "$work/program/build/hello_mesh" tp=2 cpu:0 cpu:0 >"$work/printed" 2>&1 ||
  { cat "$work/printed" >&2; fail "hello_mesh, which links Keel::parallel"; }

echo "a plugin built against the installed Keel is certified"
