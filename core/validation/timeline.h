// SPDX-License-Identifier: Apache-2.0
// A stream's progress, as far as core has been told.
#ifndef KEEL_CORE_VALIDATION_TIMELINE_H_
#define KEEL_CORE_VALIDATION_TIMELINE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace keel::validation {

// Positions count enqueued items, from 1. Only the answers of queries and waits advance |done|:
// core knows no more than it was told, whatever the device has done meanwhile. Any thread may read
// the counters; everything else needs the device's lock.
class Timeline {
 public:
  uint64_t submitted() const { return submitted_.load(std::memory_order_acquire); }
  uint64_t enqueue() { return submitted_.fetch_add(1, std::memory_order_acq_rel) + 1; }
  bool is_done(uint64_t position) const {
    return done_.load(std::memory_order_acquire) >= position;
  }

  // The item at |position| runs after |upto| of |other|.
  void add_edge(uint64_t position, std::shared_ptr<Timeline> other, uint64_t upto);
  // All work up to |position| is done, and so is the work it waited for.
  void advance(uint64_t position);
  // The stream is gone, and its work is over.
  void end();

 private:
  struct Edge {
    uint64_t position;
    std::shared_ptr<Timeline> other;
    uint64_t upto;
  };

  std::atomic<uint64_t> submitted_{0};
  std::atomic<uint64_t> done_{0};
  std::vector<Edge> edges_;
};

// A piece of work on a timeline.
struct Use {
  std::shared_ptr<Timeline> timeline;
  uint64_t position = 0;
  const char* call = "";

  bool is_done() const { return timeline->is_done(position); }
};

}  // namespace keel::validation

#endif  // KEEL_CORE_VALIDATION_TIMELINE_H_
