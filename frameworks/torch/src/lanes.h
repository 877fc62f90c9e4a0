// SPDX-License-Identifier: Apache-2.0
// The lanes of a process group: for tensors of the CPU, and for tensors of this rank's keel device.
#ifndef FRAMEWORKS_TORCH_SRC_LANES_H_
#define FRAMEWORKS_TORCH_SRC_LANES_H_

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lane.h"

namespace keel_torch {

// The first collective of keel tensors creates the communicator of the ranks' keel devices, of one
// make or of several. A rank has one keel device in a group, since the ranks create communicators
// in one order and know nothing of each other's devices. Thread-safe.
class Lanes {
 public:
  // Joins the lane for tensors of the CPU; blocks until all ranks have joined, at most |timeout|.
  Lanes(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
        std::chrono::milliseconds timeout);

  // The lane for tensors of |device|. The first call for a keel device blocks until all ranks have
  // made theirs. Throws for a second keel device; |name|: of the operation, for the message.
  Lane& of(c10::Device device, const char* name);

  void set_timeout(std::chrono::milliseconds timeout);
  // Number of operations that this rank has called.
  uint64_t sequence() const;
  void abort();
  void close();

 private:
  std::shared_ptr<Lane> device_lane() const;

  const c10::intrusive_ptr<c10d::Store> store_;
  const int rank_;
  const int size_;
  const std::shared_ptr<Lane> cpu_;

  std::mutex joining_mutex_;  // held while joining; taken before |mutex_|
  mutable std::mutex mutex_;  // protects all below
  std::chrono::milliseconds timeout_;
  bool is_over_ = false;
  std::optional<c10::Device> device_;
  std::shared_ptr<Lane> device_lane_;
};

}  // namespace keel_torch

#endif  // FRAMEWORKS_TORCH_SRC_LANES_H_
