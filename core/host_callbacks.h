// SPDX-License-Identifier: Apache-2.0
// The thread that runs the callbacks of keel_stream_on_done and keel_event_on_done.
#ifndef KEEL_CORE_HOST_CALLBACKS_H_
#define KEEL_CORE_HOST_CALLBACKS_H_

#include <keel/keel.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <thread>

#include "core/deadline.h"
#include "core/event.h"
#include "core/status.h"

namespace keel {

// One per process. The thread starts with the first callback and parks while no record ends; the
// progress thread watches the devices. Callbacks of one stream run in the order of their records,
// callbacks of different streams in the order in which Keel sees the records end.
class HostCallbacks {
 public:
  // Runs |fn|(|user|, status of |record|) once |record| is done, with KEEL_OK for an empty record.
  // After a failure or std::bad_alloc, |fn| is never called. For C functions: stop() must not be
  // called meanwhile.
  Status add(const Ref<EventRecord>& record, keel_done_fn fn, void* user);
  // Runs all callbacks, with KEEL_ABORTED where the record is not done, and joins the thread.
  // KEEL_TIMED_OUT if a callback has not returned by |deadline|: the thread goes on, and the next
  // stop() waits again. A callback added after a later keel_init starts a new thread.
  Status stop(const Deadline& deadline);

  // For records that report their changes, with any lock held: wakes the thread.
  void note_change();
  // Returns numbers in the order of the calls, beginning at 1.
  uint64_t number_end() { return ends_.fetch_add(1, std::memory_order_relaxed) + 1; }

  // For C functions that wait: KEEL_FAILED_PRECONDITION in a callback, naming the function. One
  // callback that waits would delay all later callbacks, and the awaited work may depend on them.
  static Status check_wait() { return t_is_calling ? refuse_wait() : Status(); }
  // Whether the calling thread runs a callback.
  static bool is_calling() { return t_is_calling; }

 private:
  struct Callback {
    Ref<EventRecord> record;
    keel_done_fn fn;
    void* user;
    bool is_watched;  // by the progress thread
    uint64_t position() const { return record ? record->position() : 0; }
  };
  using Queue = std::list<Callback>;         // by position
  using Queues = std::map<uint64_t, Queue>;  // by number of the stream; 0: without a record
  using Incoming = std::list<Queues::node_type>;

  static Status refuse_wait();
  void run();
  // Blocks until there is news, and takes over new callbacks; false once stop() was called.
  bool await_news();
  void take_over(Incoming incoming);
  // Runs all callbacks whose records are done.
  void run_ended();
  // Returns whether the first callback of |queue| can run. Sets |*out_number| to the number of its
  // record's end, or 0.
  bool has_ended(Queue& queue, uint64_t* out_number);
  // Runs the first callback of |queue| and removes it. False in a forked child.
  bool call_first(Queues::iterator queue, bool is_aborted);

  static thread_local constinit bool t_is_calling;

  std::atomic<uint64_t> ends_{0};
  std::mutex mutex_;  // a leaf: guards the members up to |thread_|
  std::condition_variable changed_;
  Incoming incoming_;
  bool has_news_ = false;
  bool is_stopping_ = false;
  bool has_finished_ = false;
  std::thread thread_;

  // The members below belong to the thread.
  Queues queues_;
  bool is_starved_ = false;  // memory ran out while a record was examined: try again soon
};

}  // namespace keel

#endif  // KEEL_CORE_HOST_CALLBACKS_H_
