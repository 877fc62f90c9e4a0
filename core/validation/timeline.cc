// SPDX-License-Identifier: Apache-2.0
#include "core/validation/timeline.h"

#include <algorithm>
#include <utility>

namespace keel::validation {

void Timeline::add_edge(uint64_t position, std::shared_ptr<Timeline> other, uint64_t upto) {
  if (is_done(position)) {  // reported meanwhile, by another thread's wait
    other->advance(upto);
    return;
  }
  if (!other->is_done(upto)) edges_.push_back({position, std::move(other), upto});
}

void Timeline::advance(uint64_t position) {
  std::vector<Edge> reached;
  const auto step = [&reached](Timeline& timeline, uint64_t upto) {
    if (timeline.is_done(upto)) return;
    timeline.done_.store(upto, std::memory_order_release);
    const auto passed =
        std::stable_partition(timeline.edges_.begin(), timeline.edges_.end(),
                              [&](const Edge& edge) { return edge.position > upto; });
    std::move(passed, timeline.edges_.end(), std::back_inserter(reached));
    timeline.edges_.erase(passed, timeline.edges_.end());
  };
  step(*this, position);
  while (!reached.empty()) {
    const Edge edge = std::move(reached.back());
    reached.pop_back();
    step(*edge.other, edge.upto);
  }
}

void Timeline::end() {
  advance(UINT64_MAX);
}

}  // namespace keel::validation
