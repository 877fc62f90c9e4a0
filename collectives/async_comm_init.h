// SPDX-License-Identifier: Apache-2.0
// A communicator that forms on a thread of its own, behind a handle that the caller already has.
#ifndef KEEL_COLLECTIVES_ASYNC_COMM_INIT_H_
#define KEEL_COLLECTIVES_ASYNC_COMM_INIT_H_

#include <keel/keel.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "collectives/communicator.h"
#include "core/deadline.h"
#include "core/status.h"

namespace keel {

// Reserves a handle, runs a function that blocks until the ranks have met, and makes the handle
// that of the communicator. A handle keeps its AsyncCommInit until take(). keel_shutdown waits for
// the thread as for a thread inside a C function, and ends its waits. Thread-safe.
class AsyncCommInit {
 public:
  using Form = std::function<Status(Ref<Communicator>* out_communicator)>;

  // Starts |form| on a new thread and returns at once. |call|: the C function, a static string;
  // |rank|: for texts, "rank 1 of 4".
  static Status start(const char* call, std::string rank, Form form, keel_comm* out_comm);
  // Returns the formation behind |handle|, also after its end; NULL if |handle| was made otherwise,
  // or destroyed.
  static std::shared_ptr<AsyncCommInit> find(uint64_t handle);
  // Same, and forgets the formation: the caller ends it with close().
  static std::shared_ptr<AsyncCommInit> take(uint64_t handle);
  AsyncCommInit(const AsyncCommInit&) = delete;
  AsyncCommInit& operator=(const AsyncCommInit&) = delete;

  // Status::not_ready() while the communicator forms; then KEEL_OK, or why it did not form.
  Status status();
  // The failure of a call that needs the communicator now. KEEL_OK if it has formed.
  Status refusal();
  // Waits for the end: KEEL_TIMED_OUT at |deadline|, or status().
  Status wait(const Deadline& deadline);
  // Ends the formation with |why| unless it has ended. Returns at once.
  void cancel(const Status& why);
  // Cancels, and blocks until the thread has ended. Frees the handle if it was never made live.
  void close();

 private:
  AsyncCommInit(const char* call, std::string rank, Form form, uint64_t handle)
      : call_(call), rank_(std::move(rank)), handle_(handle), form_(std::move(form)) {}
  void run();
  void form();
  void end(Status status, Ref<Communicator> made);

  const char* const call_;
  const std::string rank_;
  const uint64_t handle_;
  Form form_;
  std::atomic<bool> cancelled_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  Status status_;  // once |cancelled_| or |is_over_|
  std::thread thread_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_ASYNC_COMM_INIT_H_
