# SPDX-License-Identifier: Apache-2.0
# Sourced by ./dev and torch_test.sh: where PyTorch is, and how the wheel is made.

torch_source=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
source "$torch_source/../wheel.sh"

torch_version=${KEEL_TORCH_VERSION:-2.15.0}
# Outside of the tree: 5 GB that every clone can use.
torch_environment=${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/keel/torch-$torch_version

# Whether the environment was made, to its end.
has_torch() { [[ -f $torch_environment/made ]]; }

make_torch_environment() {
  make_environment "$torch_environment" "torch==$torch_version" numpy expecttest \
    'scikit-build-core>=0.10'
}

make_torch_wheel() { make_wheel "$torch_environment" "$torch_source" "$1" torch; }
