// SPDX-License-Identifier: Apache-2.0
// What a stream waited for in its device's queue.
#ifndef KEEL_CORE_EDGES_H_
#define KEEL_CORE_EDGES_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "core/event.h"
#include "core/ref_counted.h"
#include "core/status.h"

namespace keel {

// The records of other streams that one stream waited for, each with the stream's position
// there, until they are known to be over. Those that failed fail what lies behind them, up to
// the next recovery. Thread-safe.
class Edges {
 public:
  // The stream waited for |record| at |position|.
  struct Edge {
    uint64_t position;
    Ref<EventRecord> record;
  };

  // Whether there is any; most streams never have one.
  bool any() const { return any_.load(std::memory_order_acquire); }
  // Makes room for an edge, so that add() cannot run out of memory.
  void reserve();
  void add(uint64_t position, const Ref<EventRecord>& record);
  // Whether all up to |position| went well: KEEL_OK, "not ready" or the failure, which is to be
  // told to mark_broken() where |*out_broken_at| says at which edge it was found just now.
  Status query(uint64_t position, WakeList& wake, uint64_t* out_broken_at);
  void mark_broken(uint64_t position, const Status& status);
  // The stream recovers at |position|, or ends: nothing later depends on the edges, which are
  // returned to be let go of without a lock. The broken ones go on failing what is up to there.
  std::vector<Edge> forget(uint64_t position);

 private:
  // An edge that turned out to have failed: so did the records from |first| to |last|. The
  // record itself is let go of, since two failed streams may depend on each other.
  struct Broken {
    uint64_t first;
    uint64_t last;
    Status status;
  };

  std::mutex mutex_;  // a leaf
  std::atomic<bool> any_{false};
  std::vector<Edge> edges_;
  std::vector<Broken> broken_;
  uint64_t recovered_to_ = 0;
};

}  // namespace keel

#endif  // KEEL_CORE_EDGES_H_
