// SPDX-License-Identifier: Apache-2.0
// Copies of tensors of a keel device.
#ifndef FRAMEWORKS_TORCH_SRC_DEVICE_COPIES_H_
#define FRAMEWORKS_TORCH_SRC_DEVICE_COPIES_H_

#include <ATen/core/Tensor.h>

namespace keel_torch::device {

// An uninitialised contiguous tensor of device |index|, without PyTorch's dispatcher.
at::Tensor new_tensor(c10::DeviceIndex index, at::IntArrayRef sizes, at::ScalarType type);

// Copies |source| to |destination|, of the same device and shape, converting the type. In stream
// order.
void copy_elements(const at::Tensor& destination, const at::Tensor& source);

// A contiguous copy of |tensor|, with its conjugate and negative bits.
at::Tensor plain_copy(const at::Tensor& tensor);

// The memory from |tensor|'s first element to its last, on the CPU, viewed with |tensor|'s strides.
// Waits.
at::Tensor span_to_cpu(const at::Tensor& tensor);
// Writes what span_to_cpu returned back to |tensor|. Waits.
void span_from_cpu(const at::Tensor& tensor, const at::Tensor& span);

}  // namespace keel_torch::device

#endif  // FRAMEWORKS_TORCH_SRC_DEVICE_COPIES_H_
