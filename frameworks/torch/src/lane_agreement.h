// SPDX-License-Identifier: Apache-2.0
// Agreement of a group's ranks on the communicator for collectives of keel tensors.
#ifndef FRAMEWORKS_TORCH_SRC_LANE_AGREEMENT_H_
#define FRAMEWORKS_TORCH_SRC_LANE_AGREEMENT_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace keel_torch {

// Either all ranks have keel tensors, and create a communicator of their devices, or some rank has
// CPU tensors in the same collective, and keel tensors go through copies on the communicator of the
// CPUs. A rank knows its own tensors alone. Therefore a rank with keel tensors asks in the store,
// and a rank whose collective of CPU tensors waits for peers looks there for such a rank. Thread-
// safe.
class LaneAgreement {
 public:
  LaneAgreement(c10::intrusive_ptr<c10d::Store> store, int rank, int size);

  // Called by a rank with its first collective of keel tensors, after |called| collectives on the
  // communicator of the CPUs. Blocks until all ranks have called, then returns true, or until some
  // rank has found its tensors to be the CPU's, then returns false; all ranks get the same result.
  // Throws c10::DistBackendError at |timeout| and names the ranks that have not called. Throws what
  // |check| throws, which is called now and again, or a signal handler of Python; a later call
  // waits on.
  bool all_have_devices(uint64_t called, std::chrono::milliseconds timeout,
                        const std::function<void()>& check);

  // Called now and again by a rank that has called |called| collectives of CPU tensors and waits
  // for one of them. After a second, looks for ranks that ask after fewer collectives: the order of
  // collectives is the same on all ranks, so such a rank has keel tensors in one that is waited
  // for. Looks again after twice the time.
  void note_waiting(uint64_t called);
  // Ends the looks of note_waiting().
  void settle() { is_settled_.store(true, std::memory_order_relaxed); }

 private:
  void look(uint64_t called);

  const c10::intrusive_ptr<c10d::Store> store_;
  const int rank_;
  const int size_;
  bool has_asked_ = false;  // one thread at a time asks
  std::atomic<bool> is_settled_;

  std::mutex mutex_;  // protects all below; a thread that finds the mutex locked does not look
  // A connection apart: another thread's wait for a key keeps |store_|'s.
  c10::intrusive_ptr<c10d::Store> looks_;
  uint64_t waiting_ = 0;  // |called| of the wait in progress
  std::chrono::steady_clock::time_point since_;
  std::chrono::milliseconds pause_;
};

}  // namespace keel_torch

#endif  // FRAMEWORKS_TORCH_SRC_LANE_AGREEMENT_H_
