// SPDX-License-Identifier: Apache-2.0
// Finds ranks that wait for each other, one with CPU tensors and one with keel tensors.
#ifndef FRAMEWORKS_TORCH_SRC_LANE_ORDER_H_
#define FRAMEWORKS_TORCH_SRC_LANE_ORDER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace keel_torch {

class Lane;

// Once a group has a communicator of keel devices beside that of the CPUs, a collective of CPU
// tensors on one rank and of keel tensors on another never ends. A rank that waits therefore
// publishes how many collectives of each kind it has called. Where one rank has called more of CPU
// tensors, and another more of keel tensors, the ranks call in different orders, which is a mistake
// in a program of one order: both communicators are then aborted on all ranks. A rank of several
// calling threads has no order, and takes no part; backward passes count as the thread that waits
// for them. Thread-safe.
class LaneOrder {
 public:
  LaneOrder(c10::intrusive_ptr<c10d::Store> store, int rank, int size);

  // Starts the looks of note_waiting(). Called once, when the ranks have joined both lanes.
  void begin(const std::shared_ptr<Lane>& cpu, const std::shared_ptr<Lane>& device);

  // Called with each collective of either lane.
  void note_caller() {
    if (caller_.load(std::memory_order_relaxed) != std::this_thread::get_id()) note_other_caller();
  }
  // Called now and again by a rank that waits for a collective, without any lock. Looks once the
  // rank has called none for one to two seconds, and again after twice the time.
  void note_waiting();
  // Returns what a rank has found, for the failures of an aborted communicator; empty if nothing.
  std::string conflict();

 private:
  struct Calls {
    uint64_t of_cpu = 0;
    uint64_t of_device = 0;
    bool operator==(const Calls&) const = default;
  };
  struct Record {
    Calls calls;
    std::string cpu_text;  // of the newest operation of each lane
    std::string device_text;
  };

  void note_other_caller();
  // Returns the conflict between any two ranks, or an empty text.
  std::string look(const Record& own);

  const c10::intrusive_ptr<c10d::Store> store_;
  const int rank_;
  const int size_;
  std::atomic<std::thread::id> caller_;
  std::atomic<bool> has_several_callers_{false};
  std::atomic<bool> is_looking_{false};
  // The three below are written by begin() alone, before this.
  std::atomic<bool> has_begun_{false};
  // A connection apart: another thread's wait for a key keeps |store_|'s.
  c10::intrusive_ptr<c10d::Store> looks_;
  std::weak_ptr<Lane> cpu_;
  std::weak_ptr<Lane> device_;

  std::mutex mutex_;  // protects the four below; a thread that finds the mutex locked does not look
  std::chrono::steady_clock::time_point next_;  // time to compare the calls with |seen_|
  std::chrono::steady_clock::time_point next_look_;
  Calls seen_;
  std::chrono::milliseconds pause_;

  std::mutex conflict_mutex_;  // a leaf: protects the two below
  std::string conflict_;
  bool is_conflict_known_ = false;
};

}  // namespace keel_torch

#endif  // FRAMEWORKS_TORCH_SRC_LANE_ORDER_H_
