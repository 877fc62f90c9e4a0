# SPDX-License-Identifier: Apache-2.0
# Sourced by ./dev and python_test.sh: where nanobind and NumPy are, and how the wheel is made.

# Outside of the tree: 100 MB that every clone can use.
python_environment=${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/keel/python-1

# Whether the environment was made, to its end.
has_python() { [[ -f $python_environment/made ]]; }

make_python_environment() {
  rm -rf "$python_environment"
  mkdir -p "$(dirname "$python_environment")"
  python3 -m venv "$python_environment"
  "$python_environment/bin/pip" install --quiet --disable-pip-version-check \
    numpy 'nanobind>=2.4' 'scikit-build-core>=0.10'
  touch "$python_environment/made"
}

# make_python_wheel BUILD: BUILD/python/*.whl of the libkeel and the plugins in BUILD/lib, unpacked in
# BUILD/python/site. Compiles what has changed.
make_python_wheel() {
  local build folder source
  build=$(realpath "$1")
  folder=$build/python
  source=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
  mkdir -p "$folder"
  rm -rf "$folder/site" "$folder"/*.whl
  local pip=("$python_environment/bin/pip" --quiet --disable-pip-version-check)
  "${pip[@]}" wheel --no-build-isolation --no-deps --wheel-dir "$folder" \
    -Cbuild-dir="$folder/compiled" -Ccmake.define.KEEL_INCLUDE="$source/../../include" \
    -Ccmake.define.KEEL_LIB="$build/lib" "$source"
  "${pip[@]}" install --no-deps --target "$folder/site" "$folder"/*.whl
}

# ./dev python [TEST...], with the functions of dev.
python_verb() {
  # Debian's Python comes without what environments and extensions need.
  if [[ $(command -v python3) == /usr/bin/python3 || -z $(command -v python3) ]]; then
    install_missing python3-venv python3-dev
  fi
  install_missing "${build_packages[@]}"
  if ! has_python; then
    say "installing nanobind and NumPy into $python_environment"
    make_python_environment
  fi
  say "building libkeel, its plugins and the command"
  build_preset release build keel keel_cpu keel_vulkan keel_cli
  say "making the wheel, and testing"
  frameworks/python/python_test.sh build "$@"
  ls build/python/*.whl
}
