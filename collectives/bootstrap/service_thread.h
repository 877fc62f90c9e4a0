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

#include "base/ipc/file_descriptor.h"
#include "core/deadline.h"
#include "core/status.h"

namespace keel {

// An epoll loop on one thread per process ("keel-service"), started by the first add() and never
// destroyed; the thread stops as the process exits. Blocks in epoll while no descriptor is ready. A
// forked child has no service thread: there add() fails with KEEL_FORKED, and the child closes the
// inherited descriptors, so that peers notice the parent's end although the child lives on.
// Thread-safe.
class ServiceThread {
 public:
  // |events|: the epoll events (EPOLLIN etc.); 0: the deadline has passed. Runs on the service
  // thread, which all callbacks share: must not block.
  using Callback = std::function<void(uint64_t id, uint32_t events)>;

  static ServiceThread& get();
  ServiceThread(const ServiceThread&) = delete;
  ServiceThread& operator=(const ServiceThread&) = delete;

  // Owns |fd| until remove(). |events|: the level-triggered events to wait for. |*out_id|, never 0,
  // is written before |callback| can run. A callback that throws is removed.
  Status add(FileDescriptor fd, uint32_t events, Callback callback, uint64_t* out_id);
  // Closes the descriptor of |id|. After the return the callback no longer runs, except when the
  // callback itself is the caller: hold no lock that the callback takes. Ignores an unknown or
  // removed |id|.
  void remove(uint64_t id);

  // Ignores an unknown or removed |id|.
  Status set_events(uint64_t id, uint32_t events);
  // Calls the callback once, after |deadline| has passed; nullopt cancels the deadline. On another
  // thread, wakes the service thread if the deadline is the first. Allocates for the first deadline
  // of |id| alone.
  void set_deadline(uint64_t id, std::optional<Deadline> deadline);
  bool is_current() const;

 private:
  using Deadlines = std::multimap<Deadline::Clock::time_point, uint64_t>;
  struct Entry {
    FileDescriptor fd;
    Callback callback;
    std::optional<Deadline::Clock::time_point> deadline;
    Deadlines::node_type spare;  // of a deadline before, for the next one
  };

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
  uint64_t running_ = 0;  // id of the running callback; 0: none
  std::unordered_map<uint64_t, std::shared_ptr<Entry>> entries_;
  Deadlines deadlines_;
  FileDescriptor epoll_;
  FileDescriptor wake_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_SERVICE_THREAD_H_
