// SPDX-License-Identifier: Apache-2.0
#include "core/edges.h"

#include <algorithm>
#include <utility>

namespace keel {

void Edges::reserve() {
  std::lock_guard lock(mutex_);
  if (edges_.size() == edges_.capacity()) edges_.reserve(2 * edges_.size() + 8);
}

void Edges::add(uint64_t position, const Ref<EventRecord>& record) {
  std::lock_guard lock(mutex_);
  edges_.push_back({position, record});
  any_.store(true, std::memory_order_release);
}

Status Edges::query(uint64_t position, WakeList& wake, uint64_t* out_broken_at) {
  std::vector<Edge> passed;
  {
    std::lock_guard lock(mutex_);
    for (const Broken& broken : broken_) {
      if (broken.first <= position && position <= broken.last) return broken.status;
    }
    for (const Edge& edge : edges_) {
      if (edge.position <= position) passed.push_back(edge);
    }
  }
  // Without the lock: a query may recurse into the edges of the other stream.
  for (const Edge& edge : passed) {
    const Status status = edge.record->query(wake);
    if (status.ok()) continue;
    if (status.failed()) *out_broken_at = edge.position;
    return status;
  }
  std::lock_guard lock(mutex_);
  std::erase_if(edges_, [&](const Edge& edge) { return edge.position <= position; });
  any_.store(!edges_.empty() || !broken_.empty(), std::memory_order_release);
  return {};
}

void Edges::mark_broken(uint64_t position, const Status& status) {
  std::lock_guard lock(mutex_);
  // A recovery may have happened in between.
  const uint64_t last = position <= recovered_to_ ? recovered_to_ : UINT64_MAX;
  broken_.push_back({position, last, status});
  any_.store(true, std::memory_order_release);
}

std::vector<Edges::Edge> Edges::forget(uint64_t position) {
  std::lock_guard lock(mutex_);
  recovered_to_ = position;
  for (Broken& broken : broken_) broken.last = std::min(broken.last, position);
  any_.store(!broken_.empty(), std::memory_order_release);
  return std::exchange(edges_, {});
}

}  // namespace keel
