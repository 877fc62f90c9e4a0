// SPDX-License-Identifier: Apache-2.0
// The device's part of the Python module.
#ifndef FRAMEWORKS_TORCH_SRC_DEVICE_REGISTER_H_
#define FRAMEWORKS_TORCH_SRC_DEVICE_REGISTER_H_

#include <torch/csrc/utils/pybind.h>

namespace keel_torch::device {

// Names PrivateUse1 "keel" and registers its allocator and hooks. Called once, before any tensor of
// the device. Initialises nothing of Keel.
void register_device();

// Adds devices, streams, generators, memory and fallbacks to |module|.
void bind(pybind11::module_& module);

}  // namespace keel_torch::device

#endif  // FRAMEWORKS_TORCH_SRC_DEVICE_REGISTER_H_
