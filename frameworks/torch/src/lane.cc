// SPDX-License-Identifier: Apache-2.0
#include "lane.h"

#include <Python.h>
#include <c10/util/Exception.h>
#include <keel/comm_start.h>
#include <keel/rank_status.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "flight.h"
#include "runtime.h"

namespace keel_torch {

namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// The time that a rank which leaves gives its operations in flight.
constexpr milliseconds kLeave{2000};

// The longest wait for other ranks without a look whether the group has ended.
constexpr milliseconds kLook{20};

// The lane whose Works this thread watches, while it runs no callback; else null.
thread_local Lane* watched_lane = nullptr;

int64_t in_nanoseconds(milliseconds time) {
  return std::chrono::duration_cast<nanoseconds>(time).count();
}

}  // namespace

bool wait_for_key(c10d::Store& store, const std::string& key, milliseconds timeout,
                  const std::function<void()>& check_group) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  milliseconds pause{1};
  while (!store.check({key})) {
    if (std::chrono::steady_clock::now() >= end) return false;
    if (check_group) check_group();
    run_signal_handlers();
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLook);
  }
  return true;
}

keel_comm join(c10d::Store& store, const std::string& key, c10::Device device, int rank, int world,
               milliseconds timeout, const std::function<void()>& check_group) {
  const keel_device own = keel_device_of(device);
  keel_unique_id id;
  if (rank == 0) {
    check(keel_unique_id_create(&id), "creating the communicator's id");
    const auto* const begin = reinterpret_cast<const uint8_t*>(id.text);
    store.set(key, std::vector<uint8_t>(begin, begin + sizeof(id.text)));
  } else {
    if (!wait_for_key(store, key, timeout, check_group)) {
      C10_THROW_ERROR(DistBackendError, "keel: creating the communicator: Timed out after " +
                                            std::to_string(timeout.count()) +
                                            " ms: rank 0 has not joined");
    }
    const std::vector<uint8_t> text = store.get(key);
    TORCH_CHECK(text.size() == sizeof(id.text), "keel: ", text.size(), " bytes in the store's key ",
                key, " are no communicator's id");
    std::memcpy(id.text, text.data(), sizeof(id.text));
  }
  keel_comm_options options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
  options.timeout_ns = in_nanoseconds(timeout);
  keel_comm comm{};
  check(keel_comm_init_rank_start(own, &id, static_cast<uint32_t>(rank),
                                  static_cast<uint32_t>(world), &options, &comm),
        "creating the communicator");
  try {
    while (keel_comm_wait_ready(comm, in_nanoseconds(kLook)) != KEEL_OK &&
           keel_comm_async_error(comm) == KEEL_NOT_READY) {
      if (check_group) check_group();
      run_signal_handlers();
    }
    check(keel_comm_async_error(comm), "creating the communicator");
  } catch (...) {
    (void)keel_comm_destroy(comm);
    throw;
  }
  return comm;
}

LaneWork::LaneWork(int rank, Call call, std::shared_ptr<Lane> lane)
    : KeelWork(rank, std::move(call)), lane_(std::move(lane)) {}

void LaneWork::wait_slice(milliseconds slice) {
  keel_event event{};
  bool is_last = false;
  {
    std::lock_guard lock(lane_->mutex_);
    event = event_;
    is_last = !lane_->pending_.empty() && lane_->pending_.back().get() == this;
  }
  if (event.id != 0) {
    (void)keel_event_wait(event, in_nanoseconds(slice));
  } else if (is_last) {
    // A thread in keel_stream_synchronize runs the operation itself.
    (void)keel_stream_synchronize(lane_->stream_.handle(), in_nanoseconds(slice));
  } else {
    KeelWork::wait_slice(slice);  // another thread is about to settle the Work
    return;
  }
  poll();
}

void LaneWork::poll() {
  // One at a time: a callback may wait for the next, which another thread then settles.
  for (bool is_first = true;; is_first = false) {
    Lane::Settled ended;
    uint64_t called = 0;
    {
      std::lock_guard lock(lane_->mutex_);
      lane_->reap(&ended, 1);
      called = lane_->sequence_;
    }
    if (ended.empty()) {
      if (is_first) lane_->note_waiting(called);
      return;
    }
    lane_->settle(ended);
  }
}

void LaneWork::watch() {
  lane_->watch(c10::intrusive_ptr<LaneWork>::unsafe_reclaim_from_nonowning(this));
}

void LaneWork::abort_group() {
  lane_->abort();
}

Lane::Lane(keel_comm comm, c10::Device device, int rank, milliseconds timeout,
           std::shared_ptr<LaneAgreement> agreement)
    : comm_(comm),
      device_(device),
      rank_(rank),
      agreement_(std::move(agreement)),
      stream_(device),
      timeout_(timeout),
      applied_timeout_(timeout) {}

Lane::~Lane() {
  close();
}

keel_status Lane::query(const LaneWork& work) const {
  return work.event_.id != 0 ? keel_event_query(work.event_) : keel_stream_query(stream_.handle());
}

void Lane::reap(Settled* out, size_t most) {
  while (!pending_.empty() && out->size() < most) {
    const c10::intrusive_ptr<LaneWork>& work = pending_.front();
    const keel_status status = query(*work);
    if (status == KEEL_NOT_READY) return;
    std::exception_ptr failure;
    if (status != KEEL_OK) {
      const bool is_late = status == KEEL_TIMED_OUT;
      std::string text = "keel: " + work->text() + " failed: " + (is_late ? "Timed out : " : "") +
                         failure_text(status);
      // Later operations of the stream end by the same failure.
      if (is_late && !stream_failed_) {
        const std::string ranks = last_operations(rank_, work->getSequencenumber());
        if (!ranks.empty()) text += ". Last operations: " + ranks;
      }
      failure = make_failure(text);
      stream_failed_ = true;
    } else {
      failure = work->finish_failure_;
    }
    if (work->event_.id != 0) free_events_.push_back(std::exchange(work->event_, {}));
    out->emplace_back(work, failure);
    pending_.pop_front();
  }
}

void Lane::settle(const Settled& works) {
  if (works.empty()) return;
  // A callback may call collectives, which settle others.
  Lane* const watched = std::exchange(watched_lane, nullptr);
  if (watched == this) {
    std::lock_guard lock(watch_mutex_);
    ++watchers_in_callbacks_;
    if (!watched_.empty()) keep_watching();
  }
  for (const auto& [work, failure] : works) work->settle(failure);
  watched_lane = watched;
  if (watched != this) return;
  std::lock_guard lock(watch_mutex_);
  --watchers_in_callbacks_;
}

void Lane::note_waiting(uint64_t called) {
  if (agreement_) agreement_->note_waiting(called);
}

void Lane::refuse_if_over(const std::string& what) const {
  if (is_closed_) {
    C10_THROW_ERROR(DistBackendError, "keel: " + what + ": the process group has ended" +
                                          (abort_reason_.empty() ? "" : ": " + abort_reason_));
  }
  const keel_status status = keel_comm_async_error(comm_);
  if (status == KEEL_OK) return;
  C10_THROW_ERROR(DistBackendError,
                  "keel: " + what + ": the process group has failed: " + failure_text(status));
}

void Lane::check_alive(const std::string& what) const {
  std::lock_guard lock(mutex_);
  refuse_if_over(what);
}

std::string Lane::absence(int rank) const {
  std::lock_guard lock(mutex_);
  if (is_closed_) return "the process group has ended";
  const keel_status status = keel_comm_rank_status(comm_, static_cast<uint32_t>(rank));
  return status == KEEL_OK ? std::string() : failure_text(status);
}

void Lane::recover_stream(const KeelWork& work) {
  if (!stream_failed_) return;
  const keel_status status = keel_stream_recover(stream_.handle(), in_nanoseconds(timeout_));
  // The failure that ended the stream is reported once more here, or the stream is as before.
  if (status == KEEL_TIMED_OUT || status == KEEL_DEVICE_LOST) {
    C10_THROW_ERROR(DistBackendError,
                    "keel: " + work.text() + ": recovering the stream: " + failure_text(status));
  }
  stream_failed_ = false;
}

void Lane::apply_timeout(milliseconds timeout) {
  if (timeout == applied_timeout_) return;
  check(keel_comm_timeout_set(comm_, in_nanoseconds(timeout)), "setting the operation's timeout");
  applied_timeout_ = timeout;
}

void Lane::enqueue_finish(LaneWork& work) {
  const std::function<void()> finish = work.take_finish();
  if (!finish) return;
  try {
    stream_.run(finish);
  } catch (...) {
    // A failure of the operation itself counts first, which the stream then reports.
    work.finish_failure_ = std::current_exception();
  }
}

c10::intrusive_ptr<KeelWork> Lane::run(Call call, const Enqueue& enqueue) {
  const bool is_unset = call.timeout <= milliseconds(0);
  auto work = c10::make_intrusive<LaneWork>(rank_, std::move(call), shared_from_this());
  Settled ended;
  std::exception_ptr refusal;
  {
    std::lock_guard lock(mutex_);
    work->set_sequence(sequence_++);
    if (!pending_.empty()) reap(&ended);
    try {
      if (is_closed_ || stream_failed_) refuse_if_over(work->text());
      // Works before this one got the failure already: all that the stream still holds was dropped.
      if (pending_.empty()) recover_stream(*work);
      if (!pending_.empty() && pending_.back()->event_.id == 0) {
        keel_event event{};
        if (free_events_.empty()) {
          check(keel_event_create(0, &event), "creating an event");
        } else {
          event = free_events_.back();
          free_events_.pop_back();
        }
        // A stream that has failed records nothing: the stream's status is then the Work's.
        if (keel_event_record(event, stream_.handle()) == KEEL_OK) {
          pending_.back()->event_ = event;
        } else {
          free_events_.push_back(event);
        }
      }
      apply_timeout(is_unset ? timeout_ : work->call().timeout);
      stream_.wait_for_caller();
      const keel_status status = enqueue(comm_, stream_.handle());
      if (status != KEEL_OK) {
        C10_THROW_ERROR(DistBackendError, "keel: " + work->text() + ": " + failure_text(status));
      }
      pending_.push_back(work);
      if (stream_.is_of_device()) enqueue_finish(*work);
      if (pending_.size() == 1) reap(&ended);
    } catch (...) {
      refusal = std::current_exception();
    }
  }
  settle(ended);
  if (refusal) std::rethrow_exception(refusal);
  return work;
}

void Lane::set_timeout(milliseconds timeout) {
  std::lock_guard lock(mutex_);
  timeout_ = timeout;
}

uint64_t Lane::sequence() const {
  std::lock_guard lock(mutex_);
  return sequence_;
}

void Lane::abort() {
  if (Runtime::get().is_forked()) return;
  (void)keel_comm_abort(comm_);
  std::lock_guard lock(mutex_);
  stream_failed_ = true;
  abort_reason_ = "it was aborted";
}

void Lane::close() {
  if (Runtime::get().is_forked()) {
    // The parent's threads do not exist here, and Keel refuses every call.
    for (std::thread& watcher : watchers_) watcher.detach();
    watchers_.clear();
    return;
  }
  {
    std::lock_guard lock(mutex_);
    if (is_closed_) return;
    is_closed_ = true;
  }
  // Callbacks of futures may need Python's lock, which the caller may hold.
  std::optional<pybind11::gil_scoped_release> without_gil;
  if (Py_IsInitialized() && PyGILState_Check()) without_gil.emplace();
  if (keel_comm_finalize(comm_, in_nanoseconds(kLeave)) == KEEL_TIMED_OUT) {
    (void)keel_comm_abort(comm_);
  }
  (void)keel_stream_synchronize(stream_.handle(), in_nanoseconds(kLeave));
  Settled ended;
  {
    std::lock_guard lock(mutex_);
    reap(&ended);
    for (const auto& work : pending_) {
      ended.emplace_back(work,
                         make_failure("keel: " + work->text() +
                                      ": the process group ended with the operation in flight"));
    }
    pending_.clear();
  }
  (void)keel_comm_destroy(comm_);
  stream_.close();
  settle(ended);
  for (const keel_event event : free_events_) (void)keel_event_destroy(event);
  free_events_.clear();
  std::vector<std::thread> watchers;
  {
    std::lock_guard lock(watch_mutex_);
    stops_watching_ = true;
    watchers.swap(watchers_);
  }
  watch_changed_.notify_all();
  for (std::thread& watcher : watchers) {
    // A callback may drop the last reference to the group.
    if (watcher.get_id() == std::this_thread::get_id()) {
      watcher.detach();
    } else {
      watcher.join();
    }
  }
}

void Lane::watch(c10::intrusive_ptr<LaneWork> work) {
  std::lock_guard lock(watch_mutex_);
  watched_.push_back(std::move(work));
  keep_watching();
  watch_changed_.notify_all();
}

void Lane::keep_watching() {
  if (stops_watching_ || watchers_in_callbacks_ < watchers_.size()) return;
  watchers_.emplace_back([self = shared_from_this()] { self->run_watcher(); });
}

void Lane::run_watcher() {
  watched_lane = this;
  std::unique_lock lock(watch_mutex_);
  while (true) {
    watch_changed_.wait(lock, [this] { return !watched_.empty() || stops_watching_; });
    if (watched_.empty()) return;
    const c10::intrusive_ptr<LaneWork> work = std::move(watched_.front());
    watched_.pop_front();
    lock.unlock();
    try {
      work->wait();
    } catch (...) {
      // The future has the failure.
    }
    lock.lock();
  }
}

}  // namespace keel_torch
