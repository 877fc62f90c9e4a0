# SPDX-License-Identifier: Apache-2.0
# Sourced by ./dev and torch_test.sh: where PyTorch is, and how the wheel is made.

torch_version=${KEEL_TORCH_VERSION:-2.15.0}
# Outside of the tree: 5 GB that every clone can use.
torch_environment=${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/keel/torch-$torch_version

# Whether the environment was made, to its end.
has_torch() { [[ -f $torch_environment/made ]]; }

make_torch_environment() {
  rm -rf "$torch_environment"
  mkdir -p "$(dirname "$torch_environment")"
  python3 -m venv "$torch_environment"
  "$torch_environment/bin/pip" install --quiet --disable-pip-version-check \
    "torch==$torch_version" numpy expecttest 'scikit-build-core>=0.10'
  touch "$torch_environment/made"
}

# make_wheel BUILD: BUILD/torch/*.whl of the libkeel and the plugin in BUILD/lib, unpacked in
# BUILD/torch/site. Compiles what has changed.
make_wheel() {
  local build folder source
  build=$(realpath "$1")
  folder=$build/torch
  source=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
  mkdir -p "$folder"
  rm -rf "$folder/site" "$folder"/*.whl
  local pip=("$torch_environment/bin/pip" --quiet --disable-pip-version-check)
  "${pip[@]}" wheel --no-build-isolation --no-deps --wheel-dir "$folder" \
    -Cbuild-dir="$folder/compiled" -Ccmake.define.KEEL_INCLUDE="$source/../../include" \
    -Ccmake.define.KEEL_LIB="$build/lib" "$source"
  "${pip[@]}" install --no-deps --target "$folder/site" "$folder"/*.whl
}
