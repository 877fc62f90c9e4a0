// SPDX-License-Identifier: Apache-2.0
// The lanes of a process group: of the ranks' CPUs, and of the ranks' keel devices.
#ifndef FRAMEWORKS_TORCH_SRC_LANES_H_
#define FRAMEWORKS_TORCH_SRC_LANES_H_

#include <c10/core/Device.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lane.h"
#include "lane_agreement.h"

namespace keel_torch {

// The first collective of keel tensors creates the communicator of the ranks' keel devices, of one
// make or of several. A rank has one keel device in a group, since the ranks create communicators
// in one order and know nothing of each other's devices. Where some rank calls that collective with
// CPU tensors, there is no such communicator, and keel tensors go through the CPU's. Thread-safe.
class Lanes {
 public:
  // Joins the lane for tensors of the CPU; blocks until all ranks have joined, at most |timeout|.
  Lanes(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
        std::chrono::milliseconds timeout);

  // The lane for collectives of |device|'s tensors: of |device|, or of the CPU. The first call for
  // a keel device blocks until all ranks have made theirs. Throws for a second keel device; |name|:
  // of the operation, for the message. The lane lives as long as this object.
  Lane& of(c10::Device device, const char* name);
  const std::shared_ptr<Lane>& cpu() const { return cpu_; }

  // Whether the ranks have agreed that keel tensors go through the communicator of the CPUs.
  bool goes_through_cpu() const { return for_keel_.load(std::memory_order_acquire) == cpu_.get(); }

  void set_timeout(std::chrono::milliseconds timeout);
  // Number of operations that this rank has called.
  uint64_t sequence() const;
  void abort();
  void close();

 private:
  // The lane of keel tensors, as the ranks agree.
  Lane& agree(c10::Device device);
  // Joins the communicator of the ranks' keel devices. |check|: as in join().
  std::shared_ptr<Lane> join_devices(c10::Device device, std::chrono::milliseconds timeout,
                                     const std::function<void()>& check);
  // Null until the ranks have agreed, and if keel tensors go through the CPU.
  Lane* device_lane() const;

  const c10::intrusive_ptr<c10d::Store> store_;
  const int rank_;
  const int size_;
  const std::shared_ptr<LaneAgreement> agreement_;
  const std::shared_ptr<Lane> cpu_;
  // The lane of keel tensors: null until the ranks have agreed, unchanged afterwards. Calls read it
  // alone.
  std::atomic<Lane*> for_keel_{nullptr};

  std::mutex joining_mutex_;  // held while joining; taken before |mutex_|
  std::mutex mutex_;          // protects all below
  std::chrono::milliseconds timeout_;
  bool is_over_ = false;
  std::shared_ptr<Lane> device_lane_;
};

}  // namespace keel_torch

#endif  // FRAMEWORKS_TORCH_SRC_LANES_H_
