# SPDX-License-Identifier: Apache-2.0
# Sourced by the environment.sh of each wheel: how an environment and a wheel are made.

# make_environment FOLDER PACKAGE...: a virtual environment with the packages. FOLDER/made says that
# it was made to its end.
make_environment() {
  local folder=$1
  shift
  rm -rf "$folder"
  mkdir -p "$(dirname "$folder")"
  python3 -m venv "$folder"
  "$folder/bin/pip" install --quiet --disable-pip-version-check "$@"
  touch "$folder/made"
}

# make_wheel ENVIRONMENT SOURCE BUILD NAME: BUILD/NAME/*.whl of the libkeel and the plugins in
# BUILD/lib, unpacked in BUILD/NAME/site. Compiles what has changed.
make_wheel() {
  local pip=("$1/bin/pip" --quiet --disable-pip-version-check)
  local source build folder
  source=$(realpath "$2")
  build=$(realpath "$3")
  folder=$build/$4
  mkdir -p "$folder"
  rm -rf "$folder/site" "$folder"/*.whl
  "${pip[@]}" wheel --no-build-isolation --no-deps --wheel-dir "$folder" \
    -Cbuild-dir="$folder/compiled" -Ccmake.define.KEEL_INCLUDE="$source/../../include" \
    -Ccmake.define.KEEL_LIB="$build/lib" "$source"
  "${pip[@]}" install --no-deps --target "$folder/site" "$folder"/*.whl
}
