// SPDX-License-Identifier: Apache-2.0
#include "core/trace/device_clock.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/device.h"
#include "core/stream.h"
#include "core/trace/trace_item.h"

namespace keel {

namespace {

constexpr int64_t kMeasureEveryNs = 1'000'000'000;
constexpr int64_t kRetryNs = 20'000'000;
// A wider measurement means that the device was busy; it is used only if no better measurement is
// known, or the known one is old.
constexpr int64_t kNarrowNs = 200'000;
constexpr int64_t kWaitLimitNs = 5'000'000;

// Returns whether the plugin reports |record| done within |timeout_ns|. Does not settle the
// record: a failure concerns the owners of the work.
bool wait_native(const EventRecord& record, int64_t timeout_ns) {
  const keel_stream_table* table = record.device().stream_table();
  const Deadline deadline = Deadline::after(timeout_ns);
  if (KEEL_HAS(keel_stream_table, table, event_wait)) {
    return table->event_wait(record.native(), timeout_ns) == KEEL_OK;
  }
  // A plugin without event_wait must be polled. A notification would arrive on another thread, and
  // later than the 10 us between two polls.
  while (table->event_query(record.native()) == KEEL_NOT_READY) {
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(10));
  }
  return table->event_query(record.native()) == KEEL_OK;
}

}  // namespace

DeviceClock::~DeviceClock() {
  anchor_ = {};
  if (stream_) stream_->close(Deadline::after(kWaitLimitNs)).ok();
}

bool DeviceClock::measure(Anchor* out_anchor) {
  if (!device_.has(KEEL_CAPABILITY_TIMING) || device_.is_lost() ||
      !KEEL_HAS(keel_stream_table, device_.stream_table(), event_elapsed) ||
      (!stream_ && !Stream::create(device_, /*priority=*/0, &stream_, /*internal=*/true).ok())) {
    unusable_ = true;
    return false;
  }
  for (int round = 0; round < 3; ++round) {
    Anchor anchor;
    const int64_t before = host_now_ns();
    if (!stream_->mark(KEEL_EVENT_TIMING, &anchor.record).ok()) {
      unusable_ = true;
      return false;
    }
    if (!wait_native(*anchor.record, kWaitLimitNs)) return out_anchor->record.get() != nullptr;
    const int64_t after = host_now_ns();
    anchor.width_ns = after - before;
    anchor.host_ns = before + anchor.width_ns / 2;
    if (anchor.width_ns < out_anchor->width_ns) *out_anchor = std::move(anchor);
  }
  return true;
}

bool DeviceClock::ready() {
  const int64_t now = host_now_ns();
  if (!unusable_ && now >= next_measurement_ns_) {
    Anchor anchor;
    const bool measured = measure(&anchor);
    const bool better = !anchor_.record || anchor.width_ns < kNarrowNs ||
                        now - anchor_.host_ns > 10 * kMeasureEveryNs;
    if (measured && better) anchor_ = std::move(anchor);
    next_measurement_ns_ = host_now_ns() + (measured ? kMeasureEveryNs : kRetryNs);
  }
  return !unusable_ && anchor_.record;
}

bool DeviceClock::to_host(const EventRecord& record, int64_t* out_ns) const {
  const keel_stream_table* table = device_.stream_table();
  uint64_t after = 0;
  uint64_t before = 0;
  if (table->event_query(record.native()) != KEEL_OK) return false;  // the ABI requires this query
  if (table->event_elapsed(anchor_.record->native(), record.native(), &after) != KEEL_OK ||
      table->event_elapsed(record.native(), anchor_.record->native(), &before) != KEEL_OK) {
    return false;
  }
  // In the wrong order a plugin returns 0, or the distance until its counter wraps.
  const bool is_after = before == 0 || (after != 0 && after < before);
  *out_ns =
      anchor_.host_ns + (is_after ? static_cast<int64_t>(after) : -static_cast<int64_t>(before));
  return true;
}

}  // namespace keel
