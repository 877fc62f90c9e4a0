// SPDX-License-Identifier: Apache-2.0
// Streams of one case on the plugin's own tables, with the memory and events that they use, and
// ways to keep them at work.
#ifndef KEEL_CONFORMANCE_TABLE_BENCH_H_
#define KEEL_CONFORMANCE_TABLE_BENCH_H_

#include <keel/abi.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "conformance/harness.h"
#include "conformance/table_objects.h"

namespace keel::conformance {

// Opens the device once more with the setting "conformance" where the plugin has a test table, and
// takes the device that is open where it has none. All that a case enqueues on belongs to the
// bench, which destroys it in order: no memory or event goes while a stream still uses it.
class TableBench {
 public:
  TableBench(const Context& context, uint32_t streams, Where where = Where::current());
  // Leaves the device open where a stream does not come to its end.
  ~TableBench();
  TableBench(const TableBench&) = delete;
  TableBench& operator=(const TableBench&) = delete;

  const Context& context() const { return context_; }
  keel_plugin_device* device() const { return device_of(context_).get(); }
  const keel_stream_table& table() const { return *device_of(context_).plugin().stream; }
  // NULL where the plugin has none.
  const keel_test_table* tests() const { return tests_; }
  uint32_t streams() const { return static_cast<uint32_t>(streams_.size()); }
  keel_plugin_stream* stream(uint32_t index) const { return streams_[index].get(); }
  const TableStream& stream_object(uint32_t index) const { return streams_[index]; }
  bool has(uint64_t claims) const { return context_.claims(claims); }
  // Whether a stream that waits leaves others alone: false where all share one hardware queue.
  bool queues_are_separate() const { return context_.environment.info.hardware_queues != 1; }
  // Whether a stream can be held for as long as wanted, and not by much work alone.
  bool can_hold() const { return by_gate_ || tests_ != nullptr; }

  // What lives as long as the bench.
  std::byte* memory(uint64_t size, keel_memory_kind kind = KEEL_MEMORY_DEVICE);
  std::byte* host_memory(uint64_t size);  // pageable
  keel_plugin_event* event(uint32_t flags = 0);

  // Waits for all that is enqueued on each stream, which must have gone well.
  void settle(Where where = Where::current()) const;

  // Runs |body| while stream |index| has work before it that is not done. All of |body| may be run
  // again, with more work, where it came too late; it is over when work was there to its end.
  // Fails the case where no work outlasts it: the calls of |body| wait for the device.
  void behind_work(uint32_t index, const std::function<void()>& body,
                   Where where = Where::current());
  // Enqueues what takes stream |index| some tens of milliseconds.
  void occupy(uint32_t index, Where where = Where::current());

  // Slots, which must go well.
  void copy(uint32_t index, keel_copy_kind kind, void* destination, const void* source,
            uint64_t size, Where where = Where::current()) const;
  void fill(uint32_t index, void* destination, uint32_t word, uint64_t size,
            Where where = Where::current()) const;
  void record(keel_plugin_event* event, uint32_t index, Where where = Where::current()) const;
  void wait_event(uint32_t index, keel_plugin_event* event, Where where = Where::current()) const;
  // An answer of event_query, observed.
  keel_status query(keel_plugin_event* event, Where where = Where::current()) const;
  // Asks for |event| until it is anything but not ready, on any thread, and observes nothing.
  keel_status await(keel_plugin_event* event) const;
  // The same, observed.
  keel_status poll(keel_plugin_event* event, Where where = Where::current()) const;

 private:
  class Hold;

  // Starts to hold stream |index|, until let go or for |limit_ns|.
  std::unique_ptr<Hold> hold(uint32_t index, int64_t limit_ns, const Where& where);
  void work(uint32_t index, uint32_t rounds, const Where& where) const;

  Environment own_;
  const Context context_;
  const keel_test_table* tests_ = nullptr;
  bool by_gate_ = false;
  // Destroyed in the opposite order.
  std::deque<std::vector<std::byte>> host_;
  std::deque<TableBuffer> buffers_;
  std::deque<TableEvent> events_;
  keel_plugin_event* front_ = nullptr;  // behind the work of behind_work
  std::byte* busy_ = nullptr;           // what work() writes to
  std::vector<keel_plugin_gate*> gates_;
  std::deque<TableStream> streams_;
  std::unique_ptr<Hold> occupied_;
};

// The first status of many that is no success: observed once, not each.
class Tally {
 public:
  void add(keel_status status) {
    if (first_ == KEEL_OK) first_ = status;
  }
  keel_status first() const { return first_; }

 private:
  keel_status first_ = KEEL_OK;
};

// Of the steady clock, not observed.
int64_t steady_now();
// Waits in the worker; the runner does not.
void pause_ns(int64_t nanoseconds);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_TABLE_BENCH_H_
