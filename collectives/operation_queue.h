// SPDX-License-Identifier: Apache-2.0
// What a rank has called and is not yet done.
#ifndef KEEL_COLLECTIVES_OPERATION_QUEUE_H_
#define KEEL_COLLECTIVES_OPERATION_QUEUE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/flight/recorder.h"
#include "collectives/operation.h"
#include "collectives/rank_context.h"
#include "core/event.h"
#include "core/gate.h"
#include "core/ref_counted.h"
#include "core/status.h"
#include "core/stream.h"

namespace keel {

// The closed gate that operations in a row have left on their stream. It opens after the
// last of them. Guarded by the communicator.
struct Hold final : public RefCounted {
  Hold(Ref<Gate> closed_gate, const Stream& held_stream)
      : gate(std::move(closed_gate)), stream(&held_stream) {}
  const Ref<Gate> gate;
  const Stream* const stream;  // for comparison only
  uint32_t pending = 0;
  Status status;  // the first failure
};

struct Operation {
  Request request;
  Ref<EventRecord> ready;  // empty: its buffers are ready as soon as its turn has come
  Ref<Hold> hold;
  FlightRecorder::Entry* entry = nullptr;
  std::optional<uint64_t> posted;  // the number under which the call itself has posted it
  Sides sides;                     // where it has said that they are
  Status refused;     // not KEEL_OK: what the caller was told; the others only hear of it
  uint64_t call = 0;  // its number among the rank's
  // Instead of a request: what the ranks do among themselves, on no stream.
  std::function<void(RankContext&, Patience&)> task;
  int64_t timeout_ns = 0;
};

// First in, first out. Places are used again with the memory they have, so that once it has grown
// to what is in flight at a time, an operation allocates nothing. Not thread-safe.
class OperationQueue {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  const Operation& front() const { return places_[first_]; }
  // Makes room for one more, so that push() cannot run out of memory.
  void reserve() {
    if (size_ == places_.size()) grow();
  }
  void push(Operation operation) {
    reserve();
    places_[(first_ + size_++) % places_.size()] = std::move(operation);
  }
  // Exchanges the oldest with |*out_operation|, whose memory stays here.
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
