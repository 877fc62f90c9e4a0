// SPDX-License-Identifier: Apache-2.0
// How long one operation of a collective waits.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_PATIENCE_H_
#define KEEL_COLLECTIVES_TRANSPORTS_PATIENCE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>

#include "core/deadline.h"
#include "core/event.h"
#include "core/insiders.h"
#include "core/status.h"

namespace keel {

class ControlSegment;

// Until a deadline, or until somebody gives the operation up. The clock starts with the
// first wait that is not over at once: reading it costs 25 ns, as much as the rest of a
// small operation's bookkeeping. For one thread.
class Patience {
 public:
  Patience(int64_t timeout_ns, const std::atomic<bool>& cancelled)
      : timeout_ns_(timeout_ns), cancelled_(cancelled) {}
  // Of a part of what |whole| waits for, among fewer ranks: also given up once |segment|, that
  // of all ranks, has failed.
  Patience(Patience& whole, const ControlSegment& segment)
      : timeout_ns_(whole.deadline().remaining_ns()),
        cancelled_(whole.cancelled_),
        whole_segment_(&segment) {}

  // Asked each time a slice of a wait is over.
  bool cancelled() const {
    return cancelled_.load(std::memory_order_relaxed) ||
           (whole_segment_ != nullptr && has_whole_failed()) || insiders::are_cut_off();
  }
  // KEEL_ABORTED, for a wait that was cancelled.
  Status given_up() const;
  // From its first question to the deadline.
  int64_t timeout_ns() const { return timeout_ns_; }
  const Deadline& deadline() {
    if (!deadline_) deadline_ = Deadline::after(timeout_ns_);
    return *deadline_;
  }
  // Of |most| turns of waiting for other ranks before parking, those that are worth it: half as
  // many after each wait in which they were in vain, as where each step waits for a device.
  uint32_t spins(uint32_t most) const { return most >> in_vain_; }
  void note_spins(bool came) {
    constexpr uint32_t kMostInVain = 16;
    in_vain_ = came ? in_vain_ - std::min(in_vain_, 1u) : std::min(in_vain_ + 1, kMostInVain);
  }
  // Waits are cut into slices, so that what nobody wakes anyone for is noticed too.
  static constexpr int64_t kSliceNs = 20'000'000;

  // Waits for |record|, which may be work that the user holds behind a gate, unless
  // |is_given_up|().
  template <typename GivenUp>
  Status wait(const Ref<EventRecord>& record, const GivenUp& is_given_up) {
    while (true) {
      bool is_over = false;
      Status status = wait_slice(record, &is_over);
      if (is_over || deadline().passed()) return status;
      if (cancelled() || is_given_up()) {
        return given_up();
      }
    }
  }
  Status wait(const Ref<EventRecord>& record) {
    return wait(record, [] { return false; });
  }

 private:
  // |*out_is_over|: whether the status is the record's.
  Status wait_slice(const Ref<EventRecord>& record, bool* out_is_over);
  bool has_whole_failed() const;

  const int64_t timeout_ns_;
  const std::atomic<bool>& cancelled_;
  const ControlSegment* whole_segment_ = nullptr;
  std::optional<Deadline> deadline_;
  uint32_t in_vain_ = 0;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_PATIENCE_H_
