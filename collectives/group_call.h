// SPDX-License-Identifier: Apache-2.0
// Calls of one thread that are enqueued together.
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

// The group that the calling thread is in. One a thread.
class GroupCall {
 public:
  static GroupCall& current();
  // Keel was shut down: what groups have kept is of communicators and streams that are gone.
  static void forget_all() { shutdowns_.fetch_add(1, std::memory_order_relaxed); }

  ~GroupCall() { leave_forgotten(); }

  bool is_open() const { return open_.is_open(); }
  void start() {
    leave_forgotten();
    open_.start();
  }
  // Checks the call as if it were enqueued, and keeps it for the end; refuses a message that
  // overlaps another one of the group. |refused|: not KEEL_OK where the call is refused already,
  // with an empty |stream| perhaps; then that is returned. One that is refused keeps its place:
  // the other ranks hear of it when the group ends.
  Status add(const Ref<Communicator>& communicator, Request request, const Ref<Stream>& stream,
             const Status& refused);
  // At the outermost end: enqueues everything, the messages of one communicator and stream as
  // one operation. All that can be enqueued is; the first failure is returned. KEEL_ABORTED where
  // Keel was shut down since.
  Status end();

 private:
  struct Call {
    Ref<Communicator> communicator;
    Request request;
    Ref<Stream> stream;
    TransferRanges ranges;
    Status refused;  // of messages: not KEEL_OK where all of them are
  };

  // The messages that |call|'s go together with; NULL for the first.
  Call* find_messages(const Communicator& communicator, const Stream* stream);
  Status add_messages(const Ref<Communicator>& communicator, Request request,
                      const Ref<Stream>& stream, const Status& refused);

  // Calls from before a shutdown are never let go of, which would use what is gone. True if there
  // were any.
  bool leave_forgotten();
  // In the order of their teams.
  static void sort(std::vector<Call>* calls);

  inline static std::atomic<uint64_t> shutdowns_{0};

  OpenGroup& open_ = OpenGroup::current();
  uint64_t shutdowns_seen_ = 0;
  std::vector<Call> calls_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_GROUP_CALL_H_
