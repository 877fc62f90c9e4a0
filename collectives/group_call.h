// SPDX-License-Identifier: Apache-2.0
// Calls of one thread, enqueued together.
#ifndef KEEL_COLLECTIVES_GROUP_CALL_H_
#define KEEL_COLLECTIVES_GROUP_CALL_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/operation.h"
#include "collectives/transfer_ranges.h"
#include "core/open_group.h"
#include "core/ref_counted.h"
#include "core/status.h"
#include "core/stream.h"

namespace keel {

// The group of the calling thread. One per thread.
class GroupCall {
 public:
  static GroupCall& current();
  // Call at shutdown: the kept calls of groups refer to destroyed communicators and streams.
  static void forget_all() { shutdowns_.fetch_add(1, std::memory_order_relaxed); }

  ~GroupCall() { leave_forgotten(); }

  bool is_open() const { return open_.is_open(); }
  void start() {
    leave_forgotten();
    open_.start();
  }
  // Checks the call as for enqueue() and keeps the call until the group ends; refuses a message
  // overlapping a kept message. |refused|: not KEEL_OK if the call is refused already, perhaps with
  // an empty |stream|; then |refused| is returned. A refused call keeps its place: the peers
  // receive the refusal when the group ends.
  Status add(const Ref<Communicator>& communicator, Request request, const Ref<Stream>& stream,
             const Status& refused);
  // At the outermost end, enqueues all calls; the messages of each communicator and stream become a
  // single operation. Continues after a failure, and returns the first failure. Returns
  // KEEL_ABORTED if Keel was shut down since the start.
  Status end();

 private:
  struct Call {
    Ref<Communicator> communicator;
    Request request;
    Ref<Stream> stream;
    TransferRanges ranges;
    Status refused;  // not KEEL_OK: refused; of messages, all are
  };

  // Returns the kept call joined by messages on |communicator| and |stream|; NULL for the first.
  Call* find_messages(const Communicator& communicator, const Stream* stream);
  Status add_messages(const Ref<Communicator>& communicator, Request request,
                      const Ref<Stream>& stream, const Status& refused);

  // Leaks calls from before a shutdown, since their destructors would use destroyed objects.
  // Returns true if there were any.
  bool leave_forgotten();
  // Orders the calls by team.
  static void sort(std::vector<Call>* calls);

  inline static std::atomic<uint64_t> shutdowns_{0};

  OpenGroup& open_ = OpenGroup::current();
  uint64_t shutdowns_seen_ = 0;
  std::vector<Call> calls_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_GROUP_CALL_H_
