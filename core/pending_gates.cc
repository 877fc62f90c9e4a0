// SPDX-License-Identifier: Apache-2.0
#include "core/pending_gates.h"

#include <algorithm>

#include "core/observer.h"

namespace keel {

void PendingGates::reserve() {
  std::lock_guard lock(mutex_);
  if (gates_.size() < gates_.capacity()) return;
  std::erase_if(gates_, [](const Ref<Gate>& gate) { return gate->is_open(); });
  // Keeps half of the capacity free, so that the search for open gates costs little per added gate.
  if (2 * gates_.size() >= gates_.capacity()) gates_.reserve(2 * gates_.size() + 8);
}

void PendingGates::add(const Ref<Gate>& gate) {
  std::lock_guard lock(mutex_);
  gates_.push_back(gate);
}

bool PendingGates::all_open() const {
  std::lock_guard lock(mutex_);
  return std::all_of(gates_.begin(), gates_.end(),
                     [](const Ref<Gate>& gate) { return gate->is_open(); });
}

Status PendingGates::wait(const Deadline& deadline) {
  std::vector<Ref<Gate>> gates;
  {
    std::lock_guard lock(mutex_);
    gates = gates_;
  }
  for (const Ref<Gate>& gate : gates) {
    gate->help(deadline);
    if (!gate->wait(deadline)) {
      return failure(KEEL_TIMED_OUT, "the deadline passed before {} was over", gate->name());
    }
    observers::tell([&](Observer& observer) { observer.host_saw_done(gate->serial()); });
  }
  return {};
}

int64_t PendingGates::longest_ns() const {
  std::vector<Ref<Gate>> gates;
  {
    std::lock_guard lock(mutex_);
    gates = gates_;
  }
  int64_t sum = 0;
  for (const Ref<Gate>& gate : gates) sum = add_timeouts(sum, gate->longest_ns());
  return sum;
}

void PendingGates::clear() {
  std::vector<Ref<Gate>> gates;
  std::lock_guard lock(mutex_);
  gates.swap(gates_);
}

}  // namespace keel
