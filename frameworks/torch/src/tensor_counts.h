// SPDX-License-Identifier: Apache-2.0
// How many units of keel.h (see Type) tensors and their parts have.
#ifndef FRAMEWORKS_TORCH_SRC_TENSOR_COUNTS_H_
#define FRAMEWORKS_TORCH_SRC_TENSOR_COUNTS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tensors.h"

namespace keel_torch {

bool are_of_one_size(const std::vector<at::Tensor>& tensors);
std::vector<uint64_t> counts_of(const std::vector<at::Tensor>& tensors, uint64_t units);
uint64_t count_of(const at::Tensor& tensor, const Type& type);

// Returns what each rank gets of a tensor whose first dimension is split; equal parts if |splits|
// is empty. Throws where the sizes do not fit; |name|: of the tensor, for the message.
std::vector<uint64_t> split_counts(const at::Tensor& tensor, const std::vector<int64_t>& splits,
                                   int world, uint64_t units, const char* name);

}  // namespace keel_torch

#endif  // FRAMEWORKS_TORCH_SRC_TENSOR_COUNTS_H_
