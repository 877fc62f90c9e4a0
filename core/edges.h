// SPDX-License-Identifier: Apache-2.0
// Event edges of a stream: waits that the stream has submitted to its device's queue.
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

// Event records of other streams that one stream waited for, each with the stream's position at the
// wait, until the records are known to be done. A record that failed fails the later work of the
// waiting stream, up to the next recovery. Thread-safe.
class Edges {
 public:
  // The stream waited for |record| at |position|.
  struct Edge {
    uint64_t position;
    Ref<EventRecord> record;
  };

  // Most streams never have an edge.
  bool any() const { return any_.load(std::memory_order_acquire); }
  // Reserves room for one edge, so that add() cannot run out of memory.
  void reserve();
  void add(uint64_t position, const Ref<EventRecord>& record);
  // Returns KEEL_OK if all edges up to |position| succeeded, "not ready", or the failure. If
  // query() has just found an edge to have failed, |*out_broken_at| is set to the edge's position;
  // the caller then passes the failure to mark_broken().
  Status query(uint64_t position, WakeList& wake, uint64_t* out_broken_at);
  void mark_broken(uint64_t position, const Status& status);
  // The stream recovers at |position|, or ends: later work no longer depends on the edges. Returns
  // the edges, so that the caller releases them without a lock. Broken edges still fail the work up
  // to |position|.
  std::vector<Edge> forget(uint64_t position);

 private:
  // An edge that failed, and so failed the work from position |first| to |last|. The record is
  // released, since two failed streams may depend on each other.
  struct Broken {
    uint64_t first;
    uint64_t last;
    Status status;
  };

  std::mutex mutex_;  // leaf lock
  std::atomic<bool> any_{false};
  std::vector<Edge> edges_;
  std::vector<Broken> broken_;
  uint64_t recovered_to_ = 0;
};

}  // namespace keel

#endif  // KEEL_CORE_EDGES_H_
