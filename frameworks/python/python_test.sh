#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# python_test.sh BUILD [TEST...]: makes the wheel and runs the tests in it, where ./dev python has
# installed nanobind; with PyTorch's Python where ./dev torch has installed that. TEST: a name as
# python3 -m unittest takes it, test_buffers.DlpackTest.
set -euo pipefail
folder=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
source "$folder/environment.sh"
source "$folder/../torch/environment.sh"

if ! has_python; then
  echo "skipped: python: ./dev python was not run here"
  exit 0
fi
build=$(realpath "$1")
shift
make_python_wheel "$build"
python=$python_environment/bin/python
# Of the same interpreter alone: an extension is for one version of Python.
if has_torch && cmp -s <("$python" -VV) <("$torch_environment/bin/python" -VV); then
  python=$torch_environment/bin/python
fi
export PYTHONPATH=$build/python/site PYTHONDONTWRITEBYTECODE=1 KEEL_COLLECTIVE_TABLE=builtin
export KEEL_TEST_BIN=$build/bin
unset KEEL_PLUGIN_PATH KEEL_BACKENDS
cd "$folder/tests"
if (($# == 0)); then set -- discover; fi
exec "$python" -m unittest "$@"
