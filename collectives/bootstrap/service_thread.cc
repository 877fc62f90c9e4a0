// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/service_thread.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <keel/thread_start.hpp>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/bootstrap/system_failure.h"
#include "core/log.h"

namespace keel {

namespace {

thread_local bool t_is_service_thread = false;

constexpr uint64_t kWakeId = 0;

// Blocks all signals, so that the program's own threads handle the process's signals.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

ServiceThread& ServiceThread::get() {
  static ServiceThread& instance = *new ServiceThread;
  return instance;
}

ServiceThread::ServiceThread() {
  // The lock is held across a fork, so that the child finds a consistent table. No callback runs
  // under the lock, so a fork waits for none.
  pthread_atfork([] { get().mutex_.lock(); }, [] { get().mutex_.unlock(); },
                 [] {
                   ServiceThread& self = get();
                   if (self.started_) {
                     self.forked_ = true;
                     for (auto& [id, entry] : self.entries_) FileDescriptor(std::move(entry->fd));
                     FileDescriptor(std::move(self.epoll_));
                     FileDescriptor(std::move(self.wake_));
                   }
                   self.mutex_.unlock();
                 });
}

bool ServiceThread::is_current() const {
  return t_is_service_thread;
}

Status ServiceThread::start_locked() {
  if (started_) return {};
  FileDescriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return system_failure(errno, "epoll_create1");
  FileDescriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return system_failure(errno, "eventfd");
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = kWakeId;
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) != 0) {
    return system_failure(errno, "epoll_ctl");
  }
  epoll_ = std::move(epoll);
  wake_ = std::move(wake);
  try {
    SignalsBlocked blocked;
    kit::start_thread<std::thread>("keel-service", [this] { run(); }).detach();
  } catch (const std::bad_alloc& error) {
    return Status::no_memory(error);
  }
  started_ = true;
  // Stop before the rest of the exit, which may destroy objects that callbacks use.
  std::atexit([] { get().stop(); });
  return {};
}

Status ServiceThread::add(FileDescriptor fd, uint32_t events, Callback callback, uint64_t* out_id) {
  auto entry = std::make_shared<Entry>();
  entry->fd = std::move(fd);
  entry->callback = std::move(callback);
  std::lock_guard lock(mutex_);
  if (forked_) {
    return failure(KEEL_FORKED, "this process is a forked child: it must exec first");
  }
  if (stopping_) return failure(KEEL_UNAVAILABLE, "the process is exiting");
  KEEL_RETURN_IF_ERROR(start_locked());
  const uint64_t id = next_id_++;
  entries_.emplace(id, entry);
  *out_id = id;
  epoll_event event = {};
  event.events = events;
  event.data.u64 = id;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, entry->fd.get(), &event) != 0) {
    const int error = errno;
    entries_.erase(id);  // |entry| is destroyed after the unlock
    return system_failure(error, "epoll_ctl");
  }
  return {};
}

void ServiceThread::remove(uint64_t id) {
  std::shared_ptr<Entry> removed;  // destroyed without the lock, since callbacks own objects
  std::unique_lock lock(mutex_);
  if (forked_) return;
  const auto found = entries_.find(id);
  if (found != entries_.end()) {
    removed = std::move(found->second);
    entries_.erase(found);
    drop_deadline_locked(id, *removed);
    // Do not rely on close(): the descriptor stays open while the callback runs, and a forked child
    // that has not closed its copy yet would keep the descriptor in the epoll set.
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, removed->fd.get(), nullptr);
  }
  if (!is_current()) {
    changed_.wait(lock, [&] { return running_ != id; });
  }
  lock.unlock();
}

Status ServiceThread::set_events(uint64_t id, uint32_t events) {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return {};
  epoll_event event = {};
  event.events = events;
  event.data.u64 = id;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, found->second->fd.get(), &event) != 0) {
    return system_failure(errno, "epoll_ctl");
  }
  return {};
}

void ServiceThread::drop_deadline_locked(uint64_t id, Entry& entry) {
  if (!entry.deadline) return;
  auto [first, last] = deadlines_.equal_range(*entry.deadline);
  for (; first != last; ++first) {
    if (first->second == id) {
      entry.spare = deadlines_.extract(first);
      break;
    }
  }
  entry.deadline.reset();
}

void ServiceThread::set_deadline(uint64_t id, std::optional<Deadline> deadline) {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  Entry& entry = *found->second;
  drop_deadline_locked(id, entry);
  if (!deadline) return;
  const auto time = Deadline::Clock::now() + std::chrono::nanoseconds(deadline->remaining_ns());
  Deadlines::iterator added;
  if (entry.spare.empty()) {
    added = deadlines_.emplace(time, id);
  } else {
    entry.spare.key() = time;
    added = deadlines_.insert(std::move(entry.spare));
  }
  entry.deadline = time;
  // The thread may wait for events alone, or for a later deadline.
  if (added == deadlines_.begin() && !is_current()) eventfd_write(wake_.get(), 1);
}

void ServiceThread::dispatch(uint64_t id, uint32_t events) {
  std::shared_ptr<Entry> entry;
  {
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(id);
    if (found == entries_.end()) return;  // removed after the event was read
    entry = found->second;
    running_ = id;
  }
  try {
    entry->callback(id, events);
  } catch (const std::exception& error) {
    log(KEEL_LOG_ERROR, "service thread: a callback failed and is removed: {}", error.what());
    remove(id);
  }
  entry.reset();  // before a waiter in remove() continues
  std::lock_guard lock(mutex_);
  running_ = 0;
  changed_.notify_all();
}

void ServiceThread::expire() {
  std::vector<uint64_t> passed;
  {
    std::lock_guard lock(mutex_);
    const auto now = Deadline::Clock::now();
    while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
      const uint64_t id = deadlines_.begin()->second;
      Entry& entry = *entries_.at(id);
      entry.deadline.reset();
      entry.spare = deadlines_.extract(deadlines_.begin());
      passed.push_back(id);
    }
  }
  for (uint64_t id : passed) dispatch(id, 0);
}

int ServiceThread::timeout_ms() {
  std::lock_guard lock(mutex_);
  if (deadlines_.empty()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadlines_.begin()->first -
                                                                 Deadline::Clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 60'000));
}

void ServiceThread::run() {
  t_is_service_thread = true;
  int epoll = -1;
  int wake = -1;
  {
    std::lock_guard lock(mutex_);
    epoll = epoll_.get();
    wake = wake_.get();
  }
  std::array<epoll_event, 64> events;
  while (true) {
    const int count =
        epoll_wait(epoll, events.data(), static_cast<int>(events.size()), timeout_ms());
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<size_t>(i)];
      if (event.data.u64 != kWakeId) {
        dispatch(event.data.u64, event.events);
        continue;
      }
      eventfd_t wakes = 0;
      eventfd_read(wake, &wakes);
    }
    expire();
    std::lock_guard lock(mutex_);
    if (stopping_) {
      stopped_ = true;
      changed_.notify_all();
      return;
    }
  }
}

void ServiceThread::stop() {
  std::unique_lock lock(mutex_);
  if (forked_ || is_current()) return;
  stopping_ = true;
  eventfd_write(wake_.get(), 1);
  // A hanging callback must not keep the process from exiting.
  changed_.wait_for(lock, std::chrono::seconds(1), [&] { return stopped_; });
}

}  // namespace keel
