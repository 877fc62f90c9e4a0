// SPDX-License-Identifier: Apache-2.0
#include "backends/kunlun/stream_waiter.h"

#include <algorithm>
#include <chrono>
#include <keel/thread_start.hpp>
#include <utility>

#include "backends/kunlun/result.h"

namespace keel::kunlun {

uint64_t StreamWaiter::add(xre::Event event) {
  const std::lock_guard lock(mutex_);
  ++added_;
  if (failure_ == xre::kSuccess) records_.push_back({added_, event});
  return added_;
}

void StreamWaiter::request(uint64_t number) {
  if (is_over(number)) return;
  if (!thread_.joinable() && !is_stopping_) {
    // The thread keeps this object alive, in case it is left behind.
    thread_ =
        kit::start_thread<std::thread>("keel-kunlun", [self = shared_from_this()] { self->run(); });
  }
  if (number <= requested_) return;
  requested_ = number;
  requested_one_.notify_one();
}

bool StreamWaiter::query(uint64_t number, int* out_result) {
  const std::lock_guard lock(mutex_);
  request(number);
  *out_result = result(number);
  return is_over(number);
}

bool StreamWaiter::wait(uint64_t number, int64_t timeout_ns, int* out_result) {
  // A century, as in core: the sum of the clock and INT64_MAX would overflow.
  constexpr int64_t kLongestNs = int64_t{100} * 365 * 24 * 3600 * 1'000'000'000;
  const std::chrono::nanoseconds timeout(std::min(timeout_ns, kLongestNs));
  std::unique_lock lock(mutex_);
  request(number);
  ended_one_.wait_for(lock, timeout, [&] { return is_over(number); });
  *out_result = result(number);
  return is_over(number);
}

void StreamWaiter::notify(uint64_t number, keel_notify_fn fn, void* user) {
  int result_now = xre::kSuccess;
  {
    const std::lock_guard lock(mutex_);
    request(number);
    if (!is_over(number)) {
      callbacks_.push_back({number, fn, user});
      return;
    }
    result_now = result(number);
  }
  fn(user, status_of(error_of(result_now)));
}

bool StreamWaiter::forget(uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (is_over(number)) return true;
  if (awaited_ == number) return false;
  std::erase_if(records_, [&](const Record& record) { return record.number == number; });
  return true;
}

void StreamWaiter::stop() {
  std::unique_lock lock(mutex_);
  is_stopping_ = true;
  requested_one_.notify_one();
  if (!thread_.joinable()) return;
  std::thread thread = std::move(thread_);
  const bool is_held = awaited_ != 0;
  lock.unlock();
  if (is_held) {
    thread.detach();
  } else {
    thread.join();
  }
}

std::vector<StreamWaiter::Callback> StreamWaiter::take_callbacks() {
  std::vector<Callback> due;
  std::erase_if(callbacks_, [&](const Callback& callback) {
    if (!is_over(callback.number)) return false;
    due.push_back(callback);
    return true;
  });
  return due;
}

void StreamWaiter::run() {
  const int entered = functions_.set_device(device_);
  std::unique_lock lock(mutex_);
  while (true) {
    requested_one_.wait(lock, [&] {
      return is_stopping_ || (!records_.empty() && records_.front().number <= requested_);
    });
    if (is_stopping_) return;
    const Record record = records_.front();
    awaited_ = record.number;
    lock.unlock();
    const int ended = entered == xre::kSuccess ? functions_.event_wait(record.event) : entered;
    lock.lock();
    awaited_ = 0;
    if (ended == xre::kSuccess) {
      done_ = record.number;
      records_.pop_front();
    } else {
      failure_ = ended;
      records_.clear();
    }
    const std::vector<Callback> due = take_callbacks();
    const int failure = failure_;
    const uint64_t done = done_;
    ended_one_.notify_all();
    if (due.empty()) continue;
    lock.unlock();
    for (const Callback& callback : due) {
      const bool is_good = callback.number <= done;
      callback.fn(callback.user, is_good ? keel_status{KEEL_OK} : status_of(error_of(failure)));
    }
    lock.lock();
  }
}

}  // namespace keel::kunlun
