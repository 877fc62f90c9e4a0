// SPDX-License-Identifier: Apache-2.0
// Differences between the versions of PyTorch that this package compiles with.
#ifndef FRAMEWORKS_TORCH_SRC_TORCH_VERSION_H_
#define FRAMEWORKS_TORCH_SRC_TORCH_VERSION_H_

#include <torch/version.h>

#include <torch/csrc/distributed/c10d/Work.hpp>

#define KEEL_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) ||       \
   (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

namespace keel_torch {

#if KEEL_TORCH_AT_LEAST(2, 14)
#define KEEL_TORCH_2_14_OVERRIDE override
constexpr c10d::OpType kAllGatherIntoTensorCoalesced =
    c10d::OpType::ALLGATHER_INTO_TENSOR_COALESCED;
#else
#define KEEL_TORCH_2_14_OVERRIDE
constexpr c10d::OpType kAllGatherIntoTensorCoalesced = c10d::OpType::ALLGATHER_COALESCED;
#endif

}  // namespace keel_torch

#endif  // FRAMEWORKS_TORCH_SRC_TORCH_VERSION_H_
