// SPDX-License-Identifier: Apache-2.0
// Items from the enqueueing threads to the thread that writes a trace.
#ifndef KEEL_CORE_TRACE_TRACE_ITEM_H_
#define KEEL_CORE_TRACE_TRACE_ITEM_H_

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#include "core/device.h"
#include "core/event.h"
#include "core/observer.h"
#include "core/ref_counted.h"

namespace keel {

// Nanoseconds of the host's steady clock.
inline int64_t host_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct TraceItem {
  enum class Kind : uint8_t {
    kNone,
    kWork,
    kRecord,
    kWaitEvent,
    kGateEnqueued,
    kGatePassed,
    kStreamClosed,
    kHostSpan,
    kMemory,
    kBridged
  };
  // A large operator's tensors and workspace; further accesses are counted, but not listed.
  static constexpr uint32_t kMaxAccesses = 6;

  Kind kind = Kind::kNone;
  bool internal = false;  // the stream is internal
  uint32_t access_count = 0;
  uint32_t thread = 0;
  uint64_t stream = 0;       // number of the stream
  Device* device = nullptr;  // devices outlive the trace
  uint64_t serial = 0;
  const char* name = "";
  // On the host's clock: around the plugin call that enqueued the operation; or a host span.
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  uint64_t bytes = 0;  // of a counter; read by an operation
  uint64_t bytes_written = 0;
  // Around the operation on the device; |begin| is empty if the device has no timing events.
  Ref<EventRecord> begin;
  Ref<EventRecord> end;
  std::array<Access, kMaxAccesses> accesses;

  void set_accesses(std::span<const Access> all) {
    access_count = static_cast<uint32_t>(std::min<size_t>(all.size(), kMaxAccesses));
    std::copy_n(all.begin(), access_count, accesses.begin());
    for (const Access& access : all) (access.writes ? bytes_written : bytes) += access.bytes;
  }
};

}  // namespace keel

#endif  // KEEL_CORE_TRACE_TRACE_ITEM_H_
