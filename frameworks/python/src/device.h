// SPDX-License-Identifier: Apache-2.0
// Class Device of the module.
#ifndef FRAMEWORKS_PYTHON_SRC_DEVICE_H_
#define FRAMEWORKS_PYTHON_SRC_DEVICE_H_

#include <nanobind/ndarray.h>

#include <keel/keel.hpp>

namespace keel_python {

using keel::Device;

// The device that Python passes: a Device, or its name. Throws KEEL_NOT_FOUND for a name of none.
Device device_of(nanobind::handle given);
// DLPack's number and ordinal of a device: those of keel/dlpack.hpp.
nanobind::dlpack::device dlpack_device(const Device& device);
// The device that DLPack means, for memory whose owner is not known. Throws KEEL_UNSUPPORTED where
// DLPack's device does not tell.
Device device_of_dlpack(int type, int ordinal);

void add_device(nanobind::module_& module);

}  // namespace keel_python

#endif  // FRAMEWORKS_PYTHON_SRC_DEVICE_H_
