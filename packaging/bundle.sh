#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bundle.sh BUILD OUTPUT [--tests]: out of the finished release build in BUILD, the folder
# OUTPUT/keel-VERSION-linux-x86_64/ and its tarball, which run wherever glibc is new enough.
# --tests: the test programs as well, in a tarball of their own that unpacks into the same
# folder.
set -euo pipefail
export LC_ALL=C

build=$(realpath "$1")
output=$(realpath -m "$2")
with_tests=${3:-}
readonly newest_glibc=2.36

fail() { echo "bundle: $*" >&2; exit 1; }

[[ -z $with_tests || $with_tests == --tests ]] || fail "no option '$with_tests'"
[[ -x $build/bin/keel ]] || fail "$build is no finished build: bin/keel is missing"
command -v patchelf >/dev/null || fail "patchelf is not installed"

version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
name=keel-$version-linux-x86_64
root=$output/$name

# What belongs to glibc, and comes from the machine the bundle runs on.
is_glibc() {
  [[ $1 =~ ^(ld-linux-x86-64|lib(c|m|mvec|dl|rt|pthread|resolv|util|anl))\.so\.[0-9]+$ ]]
}

# Libraries with versioned symbols that only grow, and that a driver or the program which
# loads Keel may need in a newer version than ours: the machine's own goes first. One
# process holds one library of a name, and the first one loaded decides.
is_fallback() {
  [[ $1 =~ ^lib(stdc\+\+|gcc_s|gomp|crypto|vulkan|udev)\.so\.[0-9]+$ ]]
}

# Opened at run time, so no file says that it needs them.
opened_libraries() {
  if [[ -f $root/lib/keel/plugins/libkeel_vulkan.so ]]; then echo libvulkan.so.1; fi
}

# Archives have the mark of their members at a line's begin.
elf_files() {
  find "$root" -type f ! -name '*.a' -print0 | xargs -0 grep --text --files-with-matches $'^\x7fELF'
}

# ---- what the project builds ---------------------------------------------------------

# Three folders as in the build: bin/, lib/, tests/ keep their places to each other.
install_benchmarks() {
  install -s -t "$root/bin" "$build/bin/keel_bench" "$build/bin/keel_gpu_report"
  install -D -m 644 -t "$root/bin/peers" "$build/bin/peers/torch_ops.py"  # keel_bench's
  install "$(dirname "${BASH_SOURCE[0]}")/gpu.sh" "$root/bin/gpu"
}

install_tests() {
  mkdir -p "$root/tests"
  cp -a "$build/tests/list.txt" "$root/tests/"
  cp -a "$build/tests/plugins" "$build/tests/faulty" "$build/tests/kernels" "$root/tests/"
  local program
  while IFS=$'\t' read -r _ program _; do
    cp -a "$build/tests/$program" "$root/tests/"
  done <"$build/tests/list.txt"
  install -m 755 "$(dirname "${BASH_SOURCE[0]}")/run_tests.sh" "$root/tests/run"
  find "$root/tests" -type f -perm -u+x ! -name run -print0 | xargs -0 strip --strip-unneeded
}

install_project() {
  rm -rf "$root"
  cmake --install "$build" --prefix "$root" --strip >/dev/null
  cmake --install "$build" --prefix "$root" --strip --component samples >/dev/null
  [[ -f $root/lib/libkeel.so ]] || fail "libraries of this build do not go into lib/"
}

# Each file finds what it needs from where it lies; nothing is left to the search path of the
# program that loads it. DT_RPATH and not DT_RUNPATH: the libraries here are the ones that were
# tested together, whatever LD_LIBRARY_PATH says.
set_search_path() {
  local system=/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:/lib64:/usr/lib64:/usr/lib
  local lib
  lib="\$ORIGIN/$(realpath --relative-to="$(dirname "$1")" "$root/lib")"
  lib=${lib%/.}
  patchelf --force-rpath --set-rpath "\$ORIGIN:$lib:$system:$lib/fallback" "$1"
}

set_search_paths() {
  local file
  while read -r file; do set_search_path "$file"; done < <(elf_files)
}

# ---- what it needs -----------------------------------------------------------------------

# needed FILE...: "SONAME PATH" of each library outside the bundle and outside glibc.
needed() {
  local soname path
  ldd "$@" | sed -n 's/^\s*\(\S*\) => \(.*\)$/\1 \2/p' | sort -u |
    while read -r soname path _; do
      is_glibc "$soname" && continue
      [[ $path == not ]] && fail "$soname is needed and not installed"
      [[ $path == "$root"/* ]] || echo "$soname $(realpath "$path")"
    done
}

add_libraries() {
  local files soname path copy opened=()
  mapfile -t files < <(elf_files)
  for soname in $(opened_libraries); do
    path=$("${CC:-cc}" -print-file-name="$soname")
    [[ $path == /* ]] || fail "$soname is opened at run time and not installed"
    opened+=("$path")
  done
  mkdir -p "$root/lib/fallback"
  { needed "${files[@]}" "${opened[@]}"
    for path in "${opened[@]}"; do echo "$(basename "$path") $(realpath "$path")"; done
  } | sort -u >"$output/libraries"
  while read -r soname path; do
    copy=$root/lib/$soname
    if is_fallback "$soname"; then copy=$root/lib/fallback/$soname; fi
    install -m 644 "$path" "$copy"
    set_search_path "$copy"
  done <"$output/libraries"
}

check_glibc() {
  local file wanted
  while read -r file; do
    wanted=$(readelf --wide --version-info "$file" |
      sed -n 's/.*GLIBC_\(2\.[0-9.]*\).*/\1/p' | sort -uV | tail -1)
    if [[ $(printf '%s\n' "${wanted:-2.0}" $newest_glibc | sort -V | tail -1) != "$newest_glibc" ]]; then
      fail "${file#"$root"/} needs glibc $wanted: build on a system with glibc $newest_glibc"
    fi
  done < <(elf_files)
}

# ---- what it says --------------------------------------------------------------------------

# The Debian package that PATH came from.
package_of() {
  { dpkg -S "$1" 2>/dev/null || dpkg -S "${1#/usr}" 2>/dev/null || fail "no package owns $1"; } |
    head -1 | cut -d: -f1
}

write_readme() {
  local package soname path
  mkdir -p "$root/licenses"
  {
    cat <<TEXT
Keel $version for Linux on x86-64 with glibc $newest_glibc or newer

  bin/keel devices              what there is on this machine
  bin/keel conform run --backend cpu
  bin/keel new-plugin mychip    the project of a plugin of your own
  bin/hello_device              a sample; a finished plugin's sources are in share/keel
  bin/gpu                       all that needs a GPU, in ten minutes: gpu-DATE.md says what
                                came of it; bin/gpu --help
  bin/keel_bench                Keel beside its peers

The folder may lie anywhere, and needs nothing but glibc. To build against it pass
-DCMAKE_PREFIX_PATH=<this folder> to CMake and call find_package(Keel).

Drivers are the machine's: the Vulkan driver (ICD) of the GPU, or Mesa's lavapipe, and the
SDK of each vendor. A backend that finds none reports no devices and says why.

lib/ holds libraries that are always used from here; those in lib/fallback/ are used only
where the machine has none of that name in its usual folders.

Libraries of others in this folder, as Debian packages them; licenses/ has the terms:

TEXT
    while read -r soname path; do
      package=$(package_of "$path")
      cp "/usr/share/doc/$package/copyright" "$root/licenses/$package"
      printf '  %-18s %s %s\n' "$soname" "$package" "$(dpkg-query -W -f='${Version}' "$package")"
    done <"$output/libraries"
    printf '\nCompiled into the programs and libraries of Keel:\n\n'
    for package in libcli11-dev nlohmann-json3-dev libgtest-dev libhwy-dev spirv-tools; do
      cp "/usr/share/doc/$package/copyright" "$root/licenses/$package"
      printf '  %s %s\n' "$package" "$(dpkg-query -W -f='${Version}' "$package")"
    done
  } >"$root/README.txt"
}

# The licences that Debian's copyright files refer to.
add_common_licenses() {
  local path
  grep -rhoE '/usr/share/common-licenses/[A-Za-z0-9.-]*[A-Za-z0-9]' "$root/licenses" | sort -u |
    while read -r path; do
      [[ -e $path ]] || continue
      mkdir -p "$root/licenses/common-licenses"
      cp -L "$path" "$root/licenses/common-licenses/"
    done
}

# archive TARBALL TAR_ARGUMENTS...: -1, since -6 saves a tenth of the size for ten times
# the time.
archive() {
  local tarball=$1
  shift
  tar -C "$output" --owner=0 --group=0 --numeric-owner --sort=name -cf - "$@" |
    xz -T0 -1 >"$tarball"
  echo "$tarball: $(($(stat -c %s "$tarball") / 1048576 + 1)) MiB"
}

install_project
install_benchmarks
[[ $with_tests == --tests ]] && install_tests
set_search_paths
add_libraries
check_glibc
write_readme
add_common_licenses
rm "$output/libraries"
archive "$root.tar.xz" --exclude="$name/tests" "$name"
if [[ $with_tests == --tests ]]; then archive "$root-tests.tar.xz" "$name/tests"; fi
