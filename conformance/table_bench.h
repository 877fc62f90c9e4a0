// SPDX-License-Identifier: Apache-2.0
// The streams of one case on the plugin's own tables, with their memory and events, and ways to
// keep the streams busy.
#ifndef KEEL_CONFORMANCE_TABLE_BENCH_H_
#define KEEL_CONFORMANCE_TABLE_BENCH_H_

#include <keel/abi.h>

#include <atomic>
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

// Opens the device again with the setting "conformance" if the plugin has a test table; otherwise
// uses the open device. The bench owns everything that a case enqueues on and destroys it in order:
// memory and events outlive the streams that use them.
class TableBench {
 public:
  TableBench(const Context& context, uint32_t streams, Where where = Where::current());
  // Leaves the device open if work on a stream does not end.
  ~TableBench();
  TableBench(const TableBench&) = delete;
  TableBench& operator=(const TableBench&) = delete;

  const Context& context() const { return context_; }
  keel_plugin_device* device() const { return device_of(context_).get(); }
  const keel_stream_table& table() const { return *device_of(context_).plugin().stream; }
  // Returns NULL if the plugin has no test table.
  const keel_test_table* tests() const { return tests_; }
  // Returns the test table, for failures on demand; ends the case as unsupported if there is none.
  const keel_test_table& failing() const;
  uint32_t streams() const { return static_cast<uint32_t>(streams_.size()); }
  keel_plugin_stream* stream(uint32_t index) const { return streams_[index].get(); }
  const TableStream& stream_object(uint32_t index) const { return streams_[index]; }
  bool has(uint64_t capabilities) const { return context_.has(capabilities); }
  // Returns whether a waiting stream leaves other streams unaffected: false if all share one
  // hardware queue.
  bool queues_are_separate() const { return context_.environment.info.hardware_queues != 1; }
  // Returns whether a stream can be held for any length of time, and not only by a large amount of
  // work.
  bool can_hold() const { return by_gate_ || tests_ != nullptr; }

  // Allocate memory and events that live as long as the bench.
  std::byte* memory(uint64_t size, keel_memory_kind kind = KEEL_MEMORY_DEVICE);
  std::byte* host_memory(uint64_t size);  // pageable
  keel_plugin_event* event(uint32_t flags = 0);

  // Waits for all work on each stream; fails the case unless all work succeeded.
  void settle(Where where = Where::current()) const;
  // settle() for destructors: returns whether all work ended.
  bool settle_unobserved() const;

  // Runs |body| while earlier work on stream |index| is unfinished. If the work ended before |body|
  // did, runs |body| again behind more work, and returns once the work outlasts |body|. Fails the
  // case if no amount of work outlasts |body|: its calls wait for the device.
  void behind_work(uint32_t index, const std::function<void()>& body,
                   Where where = Where::current());
  // Enqueues work that keeps stream |index| busy for tens of milliseconds, or for |limit_ns| where
  // the plugin can hold it.
  void occupy(uint32_t index, int64_t limit_ns = 30'000'000, Where where = Where::current());

  // Call a slot; a failure status fails the case.
  void copy(uint32_t index, keel_copy_kind kind, void* destination, const void* source,
            uint64_t size, Where where = Where::current()) const;
  void fill(uint32_t index, void* destination, uint32_t word, uint64_t size,
            Where where = Where::current()) const;
  void record(keel_plugin_event* event, uint32_t index, Where where = Where::current()) const;
  void wait_event(uint32_t index, keel_plugin_event* event, Where where = Where::current()) const;
  // Fails the case unless |size| bytes of device memory repeat |word|; copies by stream |index|.
  void check_memory(uint32_t index, const std::byte* device, uint32_t word, uint64_t size,
                    const std::string& what, Where where = Where::current()) const;
  // Returns the observed status of event_query.
  keel_status query(keel_plugin_event* event, Where where = Where::current()) const;
  // Polls |event| until its status is not KEEL_NOT_READY or the wait times out. Callable on any
  // thread; observes nothing.
  keel_status await(keel_plugin_event* event) const;
  // await(), observed.
  keel_status poll(keel_plugin_event* event, Where where = Where::current()) const;

 private:
  class Hold;

  // Holds stream |index| until released or for |limit_ns|.
  std::unique_ptr<Hold> hold(uint32_t index, int64_t limit_ns, const Where& where);
  void work(uint32_t index, uint32_t rounds, const Where& where) const;

  Environment own_;
  const Context context_;
  const keel_test_table* tests_ = nullptr;
  bool by_gate_ = false;
  // Destroyed in reverse order of declaration.
  std::deque<std::vector<std::byte>> host_;
  std::deque<TableBuffer> buffers_;
  std::deque<TableEvent> events_;
  keel_plugin_event* front_ = nullptr;  // recorded behind the work of behind_work()
  std::byte* busy_ = nullptr;           // the buffer that work() writes
  uint64_t busy_bytes_ = 0;
  std::vector<keel_plugin_gate*> gates_;
  std::deque<TableStream> streams_;
  std::unique_ptr<Hold> occupied_;
};

// Keeps the first failure status of many calls, so that a case observes one status instead of many.
class Tally {
 public:
  void add(keel_status status) {
    if (first_ == KEEL_OK) first_ = status;
  }
  keel_status first() const { return first_; }

 private:
  keel_status first_ = KEEL_OK;
};

// Records the calls of a notification callback. Outlives the streams whose work calls.
struct Heard {
  std::atomic<uint32_t> count{0};
  std::atomic<keel_status> status{KEEL_NOT_READY};

  static void hear(void* user, keel_status status) {
    auto& heard = *static_cast<Heard*>(user);
    heard.status = status;
    heard.count.fetch_add(1);
  }
};
// Waits until |heard| was called |times| times. The worker's count is then observed.
uint32_t await_calls(const Heard& heard, uint32_t times, int64_t limit_ns,
                     Where where = Where::current());

// Returns the time of the steady clock in nanoseconds, not observed.
int64_t steady_now();
// Sleeps in the worker; returns at once in the runner.
void pause_ns(int64_t nanoseconds);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_TABLE_BENCH_H_
