#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# release.sh [--check | --untested]: build/release/ with all that a release is: sources, bundle with
# tests, Debian packages and SHA256SUMS. First it checks the version, the changelog and the tree,
# and runs every test. --check: those checks alone. --untested: without the tests, to try the rest;
# SHA256SUMS is then called UNTESTED.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

option=${1:-}
[[ -z $option || $option == --check || $option == --untested ]] ||
  { echo "release: no option '$option'" >&2; exit 2; }

problems=0
problem() { echo "release: $*" >&2; problems=$((problems + 1)); }

# ---- checks --------------------------------------------------------------------

version=$(sed -n 's/^project(keel VERSION \([0-9.]*\) .*/\1/p' CMakeLists.txt)
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || problem "CMakeLists.txt: no version MAJOR.MINOR.PATCH"

in_header=$(sed -n 's/^#define KEEL_VERSION_[A-Z]* \([0-9]*\)$/\1/p' include/keel/keel.h | paste -sd .)
[[ $in_header == "$version" ]] ||
  problem "include/keel/keel.h says version $in_header, CMakeLists.txt $version"

# section TITLE: the lines of the changelog below "## [TITLE]", without headings and empty ones.
section() { awk -v title="## [$1]" 'index($0, "## [") == 1 { on = index($0, title) == 1; next } on' \
  CHANGELOG.md | grep -v '^#\|^ *$' || true; }

grep -Eq "^## \[$version\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md ||
  problem "CHANGELOG.md has no line '## [$version] - YYYY-MM-DD'"
[[ -n $(section "$version") ]] || problem "CHANGELOG.md says nothing of $version"
[[ -z $(section Unreleased) ]] ||
  problem "CHANGELOG.md: what is under [Unreleased] belongs to $version"

[[ -z $(git status --porcelain) ]] || problem "the tree has changes that are not committed"
git rev-parse -q --verify "refs/tags/v$version" >/dev/null &&
  problem "the tag v$version is there already: raise the version in CMakeLists.txt and keel.h"

((problems == 0)) || exit 1
echo "release: version $version, changelog and tree are in order"
[[ $option == --check ]] && exit

# ---- tests ---------------------------------------------------------------------

sums=SHA256SUMS
if [[ $option == --untested ]]; then sums=UNTESTED; else ./dev test --all; fi

# ---- what is handed out --------------------------------------------------------

output=build/release
rm -rf "$output" build/bundle build/packages
mkdir -p "$output"
git archive --prefix="keel-$version/" -o "$output/keel-$version.tar.gz" HEAD
./dev bundle --tests --deb
cp build/bundle/*.tar.* build/packages/*.deb "$output/"
(cd "$output" && sha256sum -- *.tar.* *.deb >"$sums")

echo "release: keel $version in $output:"
ls -l "$output"
echo "release: git tag v$version, and publish the folder"
