// SPDX-License-Identifier: Apache-2.0
// Priority arbiter: all communicators of the process yield to the urgent communicators.
#ifndef KEEL_COLLECTIVES_PRIORITY_ARBITER_H_
#define KEEL_COLLECTIVES_PRIORITY_ARBITER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "collectives/transports/operation_board.h"

namespace keel {

// An urgent operation is under way once all ranks have called it, until all ranks have completed
// it. There is no yielding before: an urgent operation may still wait for a rank with a normal
// operation as its next step. So a preferred operation never waits for a yielding thread. The
// urgent communicator's segment holds this state, so normal operations of all its processes yield
// as soon as a rank has seen the match, even while the threads of some ranks still wait for a core.
// Thread-safe.
class PriorityArbiter {
 public:
  static PriorityArbiter& get();

  void add(std::shared_ptr<OperationBoard> board);
  void remove(const OperationBoard& board);

  // Whether an urgent communicator exists.
  bool is_possible() const { return count_.load(std::memory_order_relaxed) != 0; }
  // Waits while an urgent operation is under way, but no longer than kMostNs: all operations
  // proceed in the end. Returns whether there was an urgent operation.
  bool yield_to_urgent();

 private:
  // About ten times the duration of the next round of a large operation: the ratio in which endless
  // urgent traffic and the large operation share the machine.
  static constexpr int64_t kMostNs = 10'000'000;

  std::shared_ptr<OperationBoard> find_under_way();

  std::atomic<uint32_t> count_{0};  // size of |boards_|
  std::mutex mutex_;
  std::vector<std::shared_ptr<OperationBoard>> boards_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_PRIORITY_ARBITER_H_
