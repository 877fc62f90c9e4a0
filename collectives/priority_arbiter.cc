// SPDX-License-Identifier: Apache-2.0
#include "collectives/priority_arbiter.h"

#include <utility>

#include "core/deadline.h"
#include "core/observer.h"

namespace keel {

PriorityArbiter& PriorityArbiter::get() {
  static auto& created = *new PriorityArbiter;
  return created;
}

void PriorityArbiter::add(std::shared_ptr<OperationBoard> board) {
  std::lock_guard lock(mutex_);
  boards_.push_back(std::move(board));
  count_.store(static_cast<uint32_t>(boards_.size()), std::memory_order_relaxed);
}

void PriorityArbiter::remove(const OperationBoard& board) {
  std::lock_guard lock(mutex_);
  std::erase_if(boards_, [&](const auto& known) { return known.get() == &board; });
  count_.store(static_cast<uint32_t>(boards_.size()), std::memory_order_relaxed);
}

std::shared_ptr<OperationBoard> PriorityArbiter::find_under_way() {
  std::lock_guard lock(mutex_);
  for (const auto& board : boards_) {
    if (board->is_under_way()) return board;
  }
  return {};
}

bool PriorityArbiter::yield_to_urgent() {
  std::shared_ptr<OperationBoard> board = find_under_way();
  if (!board) return false;
  const HostSpan span("yields");
  const Deadline deadline = Deadline::after(kMostNs);
  while (board && !deadline.passed()) {
    board->await_over(deadline);
    board = find_under_way();
  }
  return true;
}

}  // namespace keel
