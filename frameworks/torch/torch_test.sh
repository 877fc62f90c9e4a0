#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# torch_test.sh BUILD [TEST...]: makes the wheel and runs the tests in it, where ./dev torch has
# installed PyTorch. TEST: a name as python3 -m unittest takes it, test_works.WorksTest.
# torch_test.sh BUILD --judge [OPTION...] [TEST...]: PyTorch's own tests, beside tests/judge.txt.
set -euo pipefail
folder=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
source "$folder/environment.sh"

if ! has_torch; then
  echo "skipped: torch: ./dev torch was not run here"
  exit 0
fi
build=$(realpath "$1")
shift
make_torch_wheel "$build"
export PYTHONPATH=$build/torch/site PYTHONDONTWRITEBYTECODE=1 KEEL_COLLECTIVE_TABLE=builtin
unset KEEL_PLUGIN_PATH KEEL_BACKENDS
# The device's tests start Keel, and the others fork: in processes of their own.
if (($# == 0)); then
  (
    cd "$folder/tests/device"
    "$torch_environment/bin/python" -m unittest discover
    # The models, special values, and PyTorch's own samples on Vulkan's device too, where the wheel
    # has the plugin and the machine a device.
    export KEEL_DEVICES=vulkan:0,cpu:0
    if "$torch_environment/bin/python" -c \
        'import keel_torch; raise SystemExit(keel_torch.devices()[:1] != ["vulkan:0"])'; then
      "$torch_environment/bin/python" -m unittest test_device_training test_device_values \
        test_device_operators
    else
      echo "no device vulkan:0: its tests are left out"
    fi
  )
  set -- discover
elif [[ $1 == test_device_* ]]; then
  cd "$folder/tests/device"
  exec "$torch_environment/bin/python" -m unittest "$@"
fi
cd "$folder/tests"
if [[ $1 == --judge ]]; then
  exec "$torch_environment/bin/python" judge.py "${@:2}"
fi
exec "$torch_environment/bin/python" -m unittest "$@"
