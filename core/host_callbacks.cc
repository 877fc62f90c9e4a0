// SPDX-License-Identifier: Apache-2.0
#include "core/host_callbacks.h"

#include <chrono>
#include <iterator>
#include <keel/thread_start.hpp>
#include <new>
#include <utility>

#include "core/api_state.h"
#include "core/epoch.h"
#include "core/insiders.h"
#include "core/observer.h"
#include "core/runtime.h"
#include "core/stream.h"

namespace keel {

thread_local constinit bool HostCallbacks::t_is_calling = false;

Status HostCallbacks::add(const Ref<EventRecord>& record, keel_done_fn fn, void* user) {
  const uint64_t stream = record ? record->stream().number() : 0;
  // All memory comes first: a callback once handed over is called.
  Queues queues;
  queues[stream].push_back({record, fn, user, /*is_watched=*/false});
  Callback& callback = queues.begin()->second.front();
  Incoming incoming;
  incoming.push_back(queues.extract(queues.begin()));
  {
    std::lock_guard lock(mutex_);
    if (!thread_.joinable()) {
      thread_ = kit::start_thread<std::thread>("keel-callbacks", [this] { run(); });
    }
  }
  if (record) {
    record->report_changes();
    // Now, and not only once the callback is the first of its stream: Keel then sees the ends of
    // records in their order also while a callback takes long. Held records are watched later.
    if (record->state() == EventRecord::State::kSubmitted) {
      Runtime::get().progress().watch(record);
      callback.is_watched = true;
    }
  }
  std::lock_guard lock(mutex_);
  incoming_.splice(incoming_.end(), incoming);
  has_news_ = true;
  changed_.notify_all();
  return {};
}

Status HostCallbacks::stop(const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  if (!thread_.joinable()) return {};
  is_stopping_ = true;
  changed_.notify_all();
  if (!deadline.wait(changed_, lock, [&] { return has_finished_; })) {
    return failure(KEEL_TIMED_OUT,
                   "a callback of keel_stream_on_done or keel_event_on_done has not returned: "
                   "nothing was taken down; call keel_shutdown again once it has");
  }
  lock.unlock();
  thread_.join();
  lock.lock();
  thread_ = {};
  is_stopping_ = false;
  has_finished_ = false;
  has_news_ = false;
  return {};
}

void HostCallbacks::note_change() {
  std::lock_guard lock(mutex_);
  has_news_ = true;
  changed_.notify_all();
}

Status HostCallbacks::refuse_wait() {
  const epoch::EpochRecord* const record = epoch::registered();
  const char* const call = record == nullptr ? nullptr : record->call.load();
  return failure(KEEL_FAILED_PRECONDITION,
                 "{} waits, and a callback of keel_stream_on_done or keel_event_on_done must not "
                 "wait: register another callback instead",
                 call == nullptr ? "this call" : call);
}

// ---- the thread ----------------------------------------------------------------

void HostCallbacks::run() {
  while (await_news()) {
    run_ended();
    if (is_forked_child()) return;
  }
  run_ended();
  while (!queues_.empty()) {
    const auto first = queues_.begin();
    uint64_t number = 0;
    // Records end in the order of their stream: after one that has not, none has.
    if (!call_first(first, /*is_aborted=*/!has_ended(first->second, &number))) return;
  }
  std::lock_guard lock(mutex_);
  has_finished_ = true;
  changed_.notify_all();
}

bool HostCallbacks::await_news() {
  // While memory is short, records are examined at this interval.
  constexpr auto kPause = std::chrono::milliseconds(1);
  Incoming incoming;
  bool is_stopping = false;
  {
    std::unique_lock lock(mutex_);
    const auto is_over = [&] { return has_news_ || is_stopping_; };
    if (is_starved_) {
      changed_.wait_for(lock, kPause, is_over);
    } else {
      changed_.wait(lock, is_over);
    }
    has_news_ = false;
    is_stopping = is_stopping_;
    incoming.swap(incoming_);
  }
  take_over(std::move(incoming));
  return !is_stopping;
}

void HostCallbacks::take_over(Incoming incoming) {
  for (Queues::node_type& node : incoming) {
    auto added = queues_.insert(std::move(node));
    if (added.inserted) continue;
    Queue& queue = added.position->second;
    Queue& single = added.node.mapped();
    // An event may have been recorded before a callback that is here already.
    auto place = queue.end();
    while (place != queue.begin() && std::prev(place)->position() > single.front().position()) {
      --place;
    }
    queue.splice(place, single);
  }
}

bool HostCallbacks::has_ended(Queue& queue, uint64_t* out_number) {
  Callback& first = queue.front();
  *out_number = 0;
  if (!first.record) return true;
  WakeList wake;
  bool has_ended = false;
  try {
    has_ended = first.record->query(wake).code() != KEEL_NOT_READY;
    if (!has_ended && !first.is_watched &&
        first.record->state() == EventRecord::State::kSubmitted) {
      Runtime::get().progress().watch(first.record);
      first.is_watched = true;
    }
  } catch (const std::bad_alloc&) {
    is_starved_ = true;
  }
  advance_all(wake);
  if (has_ended) *out_number = first.record->end_number();
  return has_ended;
}

void HostCallbacks::run_ended() {
  while (true) {
    is_starved_ = false;
    auto first = queues_.end();
    uint64_t first_number = 0;
    for (auto queue = queues_.begin(); queue != queues_.end(); ++queue) {
      uint64_t number = 0;
      if (!has_ended(queue->second, &number)) continue;
      if (first != queues_.end() && number >= first_number) continue;
      first = queue;
      first_number = number;
    }
    if (first == queues_.end() || !call_first(first, /*is_aborted=*/false)) return;
    Incoming incoming;
    {
      std::lock_guard lock(mutex_);
      incoming.swap(incoming_);
    }
    take_over(std::move(incoming));
  }
}

bool HostCallbacks::call_first(Queues::iterator queue, bool is_aborted) {
  Callback callback = std::move(queue->second.front());
  queue->second.pop_front();
  if (queue->second.empty()) queues_.erase(queue);
  try {
    // Without a slot, every C function of this thread takes the slow path, which refuses waits.
    epoch::register_calling_thread().thread.store(nullptr, std::memory_order_relaxed);
  } catch (const std::bad_alloc&) {
    // A wait that needs no waiting is not refused in this callback.
  }
  keel_status code = KEEL_OK;
  if (is_aborted) {
    code = KEEL_ABORTED;
    set_last_error(insiders::kCutOff);
  } else if (callback.record) {
    WakeList none;  // the record is done
    const Status status = callback.record->query_by_host(none);
    code = status.code();
    if (status.failed()) set_last_error(status.text());
  }
  callback.record = nullptr;  // keeps the stream no longer than its work
  {
    const HostSpan span("keel_done_callback");
    const UserCallback scope;
    t_is_calling = true;
    callback.fn(callback.user, code);
    t_is_calling = false;
  }
  return !is_forked_child();
}

}  // namespace keel
