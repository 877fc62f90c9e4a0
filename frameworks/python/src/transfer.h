// SPDX-License-Identifier: Apache-2.0
// Copies between buffers and arrays of NumPy, and memory shared by DLPack.
#ifndef FRAMEWORKS_PYTHON_SRC_TRANSFER_H_
#define FRAMEWORKS_PYTHON_SRC_TRANSFER_H_

#include <nanobind/ndarray.h>

#include <keel/keel.hpp>
#include <optional>

#include "buffer.h"
#include "stream.h"

namespace keel_python {

// Any array of the host whose elements lie in row-major order.
using HostArray = nanobind::ndarray<nanobind::ro, nanobind::c_contig, nanobind::device::cpu>;

// A copy of |array| on |device|. Waits.
Buffer from_numpy(const HostArray& array, const keel::Device& device);
// A copy of |buffer| for NumPy. Waits for the work on |stream|; without one, for the device.
nanobind::object to_numpy(const Buffer& buffer, const Stream* stream);
// Enqueues a copy; |array| is kept until the copy is done.
void upload(const Stream& stream, const Buffer& destination, const HostArray& array);
void copy(const Stream& stream, const Buffer& destination, const Buffer& source);

// A buffer over the memory of |array|, an object with __dlpack__.
Buffer from_dlpack(nanobind::handle array, std::optional<keel::Device> device);
// DLPack's device of the memory of |buffer|.
nanobind::dlpack::device dlpack_device_of(const Buffer& buffer);
// A capsule for Python's DLPack protocol; |arguments|: those of __dlpack__.
nanobind::object to_dlpack(const Buffer& buffer, nanobind::kwargs arguments);

}  // namespace keel_python

#endif  // FRAMEWORKS_PYTHON_SRC_TRANSFER_H_
