// SPDX-License-Identifier: Apache-2.0
#include "tensor_counts.h"

#include <c10/util/Exception.h>

#include <numeric>

namespace keel_torch {

bool are_of_one_size(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() != tensors.front().numel()) return false;
  }
  return true;
}

std::vector<uint64_t> counts_of(const std::vector<at::Tensor>& tensors, uint64_t units) {
  std::vector<uint64_t> counts;
  counts.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    counts.push_back(static_cast<uint64_t>(tensor.numel()) * units);
  }
  return counts;
}

uint64_t count_of(const at::Tensor& tensor, const Type& type) {
  return static_cast<uint64_t>(tensor.numel()) * type.units;
}

std::vector<uint64_t> split_counts(const at::Tensor& tensor, const std::vector<int64_t>& splits,
                                   int world, uint64_t units, const char* name) {
  const int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  if (splits.empty()) {
    TORCH_CHECK(rows % world == 0, "keel: all_to_all: ", name, " has ", rows, " rows for ", world,
                " ranks");
    return std::vector<uint64_t>(static_cast<size_t>(world),
                                 static_cast<uint64_t>(tensor.numel() / world) * units);
  }
  TORCH_CHECK(splits.size() == static_cast<size_t>(world), "keel: all_to_all: ", splits.size(),
              " sizes for the parts of ", name, ", for ", world, " ranks");
  TORCH_CHECK(std::accumulate(splits.begin(), splits.end(), int64_t{0}) == rows,
              "keel: all_to_all: the parts of ", name, " do not add up to its ", rows, " rows");
  const int64_t row = rows == 0 ? 0 : tensor.numel() / rows;
  std::vector<uint64_t> counts;
  for (const int64_t split : splits) {
    TORCH_CHECK(split >= 0, "keel: all_to_all: a part of ", name, " has ", split, " rows");
    counts.push_back(static_cast<uint64_t>(split * row) * units);
  }
  return counts;
}

}  // namespace keel_torch
