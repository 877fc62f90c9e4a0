// SPDX-License-Identifier: Apache-2.0
// The thread that answers other processes.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_SERVICE_THREAD_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_SERVICE_THREAD_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "collectives/bootstrap/file_descriptor.h"
#include "core/deadline.h"
#include "core/status.h"

namespace keel {

// One a process ("keel-service"), started by the first descriptor it is given, parked in
// epoll while none of them has anything to say, and never destroyed: it leaves as the process
// exits. After a fork the child has no such thread: add() fails there with KEEL_FORKED, and
// the descriptors it had are closed in the child, so that peers notice the parent's end
// though the child lives on. Thread-safe.
class ServiceThread {
 public:
  // |events|: those that came, EPOLLIN and the like; 0: the deadline has passed. Runs on the
  // service thread, on behalf of all others there too: it must not wait for anything.
  using Callback = std::function<void(uint64_t id, uint32_t events)>;

  static ServiceThread& get();
  ServiceThread(const ServiceThread&) = delete;
  ServiceThread& operator=(const ServiceThread&) = delete;

  // Owns |fd| until it is removed. |events|: what to wait for; level-triggered. |*out_id|,
  // never 0, is written before |callback| can run. A callback that throws is removed.
  Status add(FileDescriptor fd, uint32_t events, Callback callback, uint64_t* out_id);
  // Closes its descriptor. The callback does not run any more once this returns, unless it is
  // the callback itself that calls. So the caller holds no lock that the callback takes. An id
  // that is unknown, or was removed before, is fine.
  void remove(uint64_t id);

  // From callbacks only.
  Status set_events(uint64_t id, uint32_t events);
  // The callback is called once |deadline| has passed, once; nullopt takes it away.
  void set_deadline(uint64_t id, std::optional<Deadline> deadline);
  bool is_current() const;

 private:
  struct Entry {
    FileDescriptor fd;
    Callback callback;
    std::optional<Deadline::Clock::time_point> deadline;
  };
  using Deadlines = std::multimap<Deadline::Clock::time_point, uint64_t>;

  ServiceThread();
  Status start_locked();
  void run();
  void stop();
  void dispatch(uint64_t id, uint32_t events);
  void expire();
  int timeout_ms();
  void drop_deadline_locked(uint64_t id, Entry& entry);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool forked_ = false;
  bool started_ = false;
  bool stopping_ = false;
  bool stopped_ = false;
  uint64_t next_id_ = 1;
  uint64_t running_ = 0;  // whose callback runs
  std::unordered_map<uint64_t, std::shared_ptr<Entry>> entries_;
  Deadlines deadlines_;
  FileDescriptor epoll_;
  FileDescriptor wake_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_SERVICE_THREAD_H_
