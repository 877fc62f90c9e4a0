// SPDX-License-Identifier: Apache-2.0
// Keel's reduce on PyTorch's tensors.
#ifndef FRAMEWORKS_TORCH_SRC_DEVICE_REDUCE_H_
#define FRAMEWORKS_TORCH_SRC_DEVICE_REDUCE_H_

#include <ATen/core/Tensor.h>
#include <keel/keel.h>

#include <optional>

namespace keel_torch::device {

// Reduces |x| over |dims|, all if there are none, to |type|. Nothing where no kernel can run the
// call.
std::optional<at::Tensor> reduce(int64_t function, const at::Tensor& x,
                                 at::OptionalIntArrayRef dims, bool keeps_dims,
                                 at::ScalarType type);

}  // namespace keel_torch::device

#endif  // FRAMEWORKS_TORCH_SRC_DEVICE_REDUCE_H_
