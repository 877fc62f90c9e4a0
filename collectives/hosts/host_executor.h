// SPDX-License-Identifier: Apache-2.0
// Runs collectives among ranks that share no memory, by messages.
#ifndef KEEL_COLLECTIVES_HOSTS_HOST_EXECUTOR_H_
#define KEEL_COLLECTIVES_HOSTS_HOST_EXECUTOR_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <vector>

#include "collectives/hosts/host_buffers.h"
#include "collectives/hosts/message_plan.h"
#include "collectives/hosts/wire_wait.h"
#include "collectives/operation.h"
#include "collectives/rank_context.h"
#include "collectives/transports/wire.h"
#include "core/status.h"

namespace keel {

// Every message carries the fingerprint of its call, so a rank that calls something else is found
// by the first message. There is no barrier: a rank runs ahead as far as its messages allow.
//
// Deadlock freedom: all ranks walk through the same order of items (step, round), in which the
// rounds of a batch of HostBuffers::kDepth alternate. A rank posts an item's sends and receives
// together and waits for items in this order, so the first unfinished item of all ranks waits for
// nothing but itself.
//
// Sums are made in the order of the plan, never in the order of arrival: all ranks get the same
// bits. For one thread.
class HostExecutor {
 public:
  // |members|: for each rank of the plan, the rank of the wires. |lane|: first lane of the wires to
  // use, of HostBuffers::kDepth.
  HostExecutor(RankContext& context, WireSet& wires, const HostRanks& ranks,
               std::vector<uint32_t> members);

  // Differences of a part of an operation from the caller's request.
  struct Options {
    uint64_t divisor = 0;   // for KEEL_AVG; 0: the number of ranks
    bool is_timed = false;  // for time()
  };
  // Bytes up to which all ranks together send all their data at once, instead of in two steps of
  // shares: the second step costs some 30 us, in which a fast link moves about as much.
  static constexpr uint64_t kSmallBytes = 64 << 10;
  // Runs |request|, whose fingerprint is set. After a failure the caller fails the wires and calls
  // settle(). KEEL_INVALID_ARGUMENT: a message belongs to another call, see calls(), or has
  // another size.
  Status run(const Request& request, const Options& options, WireWait& wait);
  // run() in parts, for a thread that does something else meanwhile. start() posts the first
  // messages; advance() goes on as far as messages have come, and may wait for copies of the rank's
  // own device; finish() blocks until all is done. |request| stays valid until then.
  Status start(const Request& request, const Options& options, WaitContext& wait_context);
  Status advance(WireWait& wait);
  bool is_over() const { return is_over_; }
  Status finish(WireWait& wait);
  // The sum over all timed operations, each from start() until nothing is awaited from other ranks.
  std::chrono::nanoseconds time() const { return time_; }
  // Requires failed wires. Waits until neither wires nor copies touch the caller's memory.
  void settle();

  // The ranks that run() still waited for when it failed, of the plan.
  std::vector<uint32_t> awaited() const;
  // The calls of other ranks, as far as known when run() failed with KEEL_INVALID_ARGUMENT.
  struct Call {
    uint32_t rank = 0;  // of the plan
    Fingerprint print;
  };
  const std::vector<Call>& calls() const { return calls_; }
  bool is_staged() const { return buffers_.is_staged(); }
  uint64_t rounds() const { return buffers_.rounds() * plan_.steps; }
  uint64_t round_bytes() const { return buffers_.round_bytes(); }
  const StagingPipeline::Traffic& traffic() const { return buffers_.traffic(); }

 private:
  struct Message {
    WireRequest request;
    std::array<iovec, 2> pieces = {};
    double factor = 1;
    uint32_t peer = 0;  // of the plan
    uint32_t step = 0;
    char* landed = nullptr;  // where the data is
    bool is_posted = false;
  };
  // One round in flight. Messages are reused in order.
  struct Slot {
    std::deque<Message> sends;
    std::deque<Message> receives;
    size_t sent = 0;      // messages of the round so far
    size_t received = 0;  // messages of the step so far
    size_t settled_sends = 0;
    size_t settled_receives = 0;
    size_t next_send = 0;  // in the plan
    size_t next_work = 0;
  };
  // One step of one round, which advance() waits for.
  struct Item {
    uint64_t first = 0;  // round of the batch
    uint32_t step = 0;
    uint64_t round = 0;
    bool is_worked = false;  // what has arrived is copied or reduced
  };

  uint64_t batch_end() const;
  Status leave_item(WaitContext& wait_context);
  Status enter(uint64_t round, WaitContext& wait_context);
  void post(uint64_t round, uint32_t step);
  void post_send(uint64_t round, const PlannedSend& send);
  void post_receives(uint64_t round, const PlannedWork& work);
  // Reduces or copies what has arrived for |item_|.
  Status work();
  Status run_work(uint64_t round, const PlannedWork& work, size_t* in_out_message);
  // Ends the messages that the wires are done with: sends before |end_step|, or receives.
  Status settle_sends(Slot& slot, uint32_t end_step, bool* out_are_settled);
  Status settle_receives(Slot& slot, bool* out_are_settled);
  Status check(const Message& message) const;
  // Collects the calls of the ranks whose messages of the step arrive soon.
  void collect_calls(const Slot& slot);
  bool has_message(const PlannedSource& source, const HostBuffers::Range& range) const {
    return source.rank != ranks_.rank && (range.count != 0 || plan_.is_barrier);
  }
  bool carries_factor(const PartRange& range) const {
    return request_->reduction == KEEL_PREMUL_SUM && reduces(request_->collective) &&
           range.buffer == StepBuffer::kSend;
  }
  void post_message(Message& message, uint32_t peer, uint32_t lane, char* data, uint64_t bytes,
                    bool has_factor, bool is_send);

  RankContext& context_;
  WireSet& wires_;
  const HostRanks ranks_;
  const std::vector<uint32_t> members_;
  HostBuffers buffers_;
  MessagePlan plan_;
  const Request* request_ = nullptr;
  Options options_;
  Item item_;
  bool is_over_ = true;
  std::chrono::steady_clock::time_point begin_;
  std::chrono::nanoseconds time_{};
  std::array<Slot, HostBuffers::kDepth> slots_;
  std::vector<const void*> sources_;
  std::vector<double> factors_;
  std::vector<Call> calls_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HOSTS_HOST_EXECUTOR_H_
