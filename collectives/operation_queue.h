// SPDX-License-Identifier: Apache-2.0
// Operations called by a rank and not complete.
#ifndef KEEL_COLLECTIVES_OPERATION_QUEUE_H_
#define KEEL_COLLECTIVES_OPERATION_QUEUE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/flight/recorder.h"
#include "collectives/kept_allocations.h"
#include "collectives/operation.h"
#include "collectives/rank_context.h"
#include "core/event.h"
#include "core/gate.h"
#include "core/ref_counted.h"
#include "core/status.h"
#include "core/stream.h"

namespace keel {

// The closed gate shared by consecutive operations on a stream. Opens after the last operation.
// Guarded by the communicator's mutex.
struct HeldStream final : public RefCounted {
  HeldStream(Ref<Gate> closed_gate, const Stream& held_stream)
      : gate(std::move(closed_gate)), stream(&held_stream) {}
  const Ref<Gate> gate;
  const Stream* const stream;  // for comparison only
  uint32_t pending = 0;
  Status status;  // first failure
};

// How far a rank's call has come, after its part within the call. Drawn in communicator_calls.cc.
enum class CallState : uint8_t {
  kCalled,     // nothing is published: all that is left is the worker thread's
  kPublished,  // the peers read the descriptor: the worker thread matches and acts
  kDone,       // no peer waits for the rank
};

struct Operation {
  Request request;
  KeptAllocations allocations;  // around the request's buffers, unless |published|
  Ref<EventRecord> ready;       // empty: the buffers are ready when its turn comes
  Ref<HeldStream> hold;
  FlightRecorder::Entry* entry = nullptr;
  std::optional<uint64_t> published;  // sequence number, if the call itself has published it
  Sides sides;                        // buffer locations published with |published|
  Status refused;     // not KEEL_OK: returned to the caller; the others are only informed
  uint64_t call = 0;  // number among the rank's calls
  // Set in place of a request: work of the ranks among themselves, on no stream.
  std::function<void(RankContext&, WaitContext&)> task;
  int64_t timeout_ns = 0;
};

// First in, first out. Places and memory are reused: once the queue has grown to the number of
// operations in flight, an operation does not allocate. Not thread-safe.
class OperationQueue {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  const Operation& front() const { return places_[first_]; }
  // The operation behind |index| others; below size().
  const Operation& at(size_t index) const { return places_[(first_ + index) % places_.size()]; }
  // Makes room for one more operation, after which push() cannot run out of memory.
  void reserve() {
    if (size_ == places_.size()) grow();
  }
  void push(Operation operation) {
    reserve();
    places_[(first_ + size_++) % places_.size()] = std::move(operation);
  }
  // Swaps the oldest operation with |*out_operation|. The latter's memory stays in the queue.
  void pop(Operation* out_operation) {
    std::swap(places_[first_], *out_operation);
    first_ = (first_ + 1) % places_.size();
    --size_;
  }

 private:
  void grow() {
    std::vector<Operation> larger(places_.empty() ? 16 : 2 * places_.size());
    for (size_t i = 0; i < size_; ++i) {
      larger[i] = std::move(places_[(first_ + i) % places_.size()]);
    }
    places_ = std::move(larger);
    first_ = 0;
  }

  std::vector<Operation> places_;
  size_t first_ = 0;
  size_t size_ = 0;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_OPERATION_QUEUE_H_
