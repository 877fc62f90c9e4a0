// SPDX-License-Identifier: Apache-2.0
// Traces: the activity of streams and waiting threads, written to a file for Perfetto.
#ifndef KEEL_CORE_TRACE_TRACE_H_
#define KEEL_CORE_TRACE_TRACE_H_

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "core/deadline.h"
#include "core/observer.h"
#include "core/status.h"
#include "core/trace/trace_item.h"
#include "core/trace/trace_ring.h"

namespace keel {

class TraceWriter;

// One per process, never destroyed. Enqueueing threads put items into a ring and, if the device has
// timing events, two records around each operation; the trace's own thread does the rest. When that
// thread falls behind, items are dropped and counted. Thread-safe.
class Trace final : public Observer {
 public:
  static Trace& get();

  Status start(const std::string& path);
  // Waits until |deadline| for the operations enqueued before. KEEL_DATA_LOSS if part of the trace
  // is not in the file.
  Status stop(const Deadline& deadline);
  bool is_started();

  void enqueued(Stream& stream, const Step& step) override;
  void starting(Stream& stream, const Step& step) override;
  void passed(Stream& stream, const Step& step, const Status& status) override;
  void closed(Stream& stream) override;
  void host_begin(const char* name, std::span<const Access> accesses) override;
  void host_end() override;
  void memory_changed(Device& device, uint64_t allocated_bytes) override;
  void bridged(uint64_t bytes) override;

  // Called by the writer when it cannot write: ends the observation until stop().
  void abandon();
  // Returns whether no call is in flight; after abandon(), no call will come.
  bool is_quiet() const;

 private:
  class Entry;
  // Counts calls in flight, spread over cache lines by thread.
  struct alignas(64) Shard {
    std::atomic<uint32_t> inside{0};
  };

  Trace();
  void push(TraceItem&& item);

  // 8,192 items of 350 bytes: 8 ms of a million operations per second.
  static constexpr uint64_t kRingItems = 8192;

  std::array<Shard, 16> shards_;
  std::atomic<bool> observing_{false};
  std::unique_ptr<TraceRing<TraceItem>> ring_;  // created by the first start
  std::atomic<uint64_t> dropped_{0};
  std::atomic<uint64_t> bridged_bytes_{0};
  std::atomic<uint32_t> number_{0};  // traces so far

  std::mutex mutex_;  // serialises start and stop
  std::unique_ptr<TraceWriter> writer_;
};

}  // namespace keel

#endif  // KEEL_CORE_TRACE_TRACE_H_
