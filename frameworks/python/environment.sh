# SPDX-License-Identifier: Apache-2.0
# Sourced by ./dev and python_test.sh: where nanobind and NumPy are, and how the wheel is made.

python_source=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
source "$python_source/../wheel.sh"

# Outside of the tree: 100 MB that every clone can use.
python_environment=${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/keel/python-1

# Whether the environment was made, to its end.
has_python() { [[ -f $python_environment/made ]]; }

make_python_environment() {
  make_environment "$python_environment" numpy 'nanobind>=2.4' 'scikit-build-core>=0.10'
}

make_python_wheel() { make_wheel "$python_environment" "$python_source" "$1" python; }

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
