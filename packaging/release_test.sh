#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# release_test.sh SOURCE WORK: `release.sh --check` lets a tree in order pass and names what is not.
set -euo pipefail
source=$1
work=$2
command -v git >/dev/null || { echo "skipped: git is not installed"; exit 0; }

rm -rf "$work"
mkdir -p "$work/packaging" "$work/include/keel"
cp "$source/packaging/release.sh" "$work/packaging/"
cd "$work"
git init -q .
git config user.name test
git config user.email test@localhost

# tree VERSION HEADER_MINOR CHANGELOG: committed as one.
tree() {
  echo "project(keel VERSION $1 LANGUAGES C CXX)" >CMakeLists.txt
  printf '#define KEEL_VERSION_MAJOR 3\n#define KEEL_VERSION_MINOR %s\n#define KEEL_VERSION_PATCH 0\n' \
    "$2" >include/keel/keel.h
  printf '%s\n' "# Changelog" "$3" >CHANGELOG.md
  git add -A
  git commit -q --allow-empty -m tree
}

# check STATUS WORDS: what --check ends with, and says.
check() {
  local status=0
  packaging/release.sh --check >printed 2>&1 || status=$?
  [[ $status == "$1" ]] && grep -qF -- "$2" printed ||
    { echo "wanted status $1 and '$2', got $status:"; cat printed; exit 1; }
  rm printed
}

good=$'## [Unreleased]\n\n## [3.1.0] - 2026-01-31\n\n- A change.\n\n## [3.0.0] - 2025-01-31\n\n- Another.'
tree 3.1.0 1 "$good"
echo /printed >.git/info/exclude
check 0 "version 3.1.0, changelog and tree are in order"
tree 3.1.0 2 "$good"
check 1 "keel.h says version 3.2.0, CMakeLists.txt 3.1.0"
tree 3.1 1 "$good"
check 1 "no version MAJOR.MINOR.PATCH"
tree 3.1.0 1 $'## [Unreleased]\n\n## [3.0.0] - 2025-01-31\n\n- Another.'
check 1 "no line '## [3.1.0] - YYYY-MM-DD'"
tree 3.1.0 1 $'## [3.1.0] - 2026-01-31\n\n### Added\n\n## [3.0.0] - 2025-01-31\n\n- Another.'
check 1 "CHANGELOG.md says nothing of 3.1.0"
tree 3.1.0 1 $'## [Unreleased]\n\n- Late.\n\n## [3.1.0] - 2026-01-31\n\n- A change.'
check 1 "what is under [Unreleased] belongs to 3.1.0"
tree 3.1.0 1 "$good"
echo more >more
check 1 "changes that are not committed"
rm more
git tag v3.1.0
check 1 "the tag v3.1.0 is there already"
