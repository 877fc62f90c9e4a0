// SPDX-License-Identifier: Apache-2.0
// The short blocks of an all_to_all_v between hosts: one rank of a host sends those of all ranks.
#ifndef KEEL_COLLECTIVES_HOSTS_CARRIED_BLOCKS_H_
#define KEEL_COLLECTIVES_HOSTS_CARRIED_BLOCKS_H_

#include <sys/uio.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "collectives/hosts/host_carriers.h"
#include "collectives/hosts/host_executor.h"
#include "collectives/hosts/host_group.h"
#include "collectives/hosts/host_inside.h"
#include "collectives/hosts/host_scratch.h"
#include "collectives/hosts/wire_wait.h"
#include "collectives/operation.h"
#include "collectives/rank_context.h"
#include "core/status.h"

namespace keel {

// Whether the carrier sends a block of so many bytes; the same on all ranks, and true for 0 bytes.
using MayCarry = std::function<bool(uint64_t bytes)>;

// Only the two ranks of a block know its size, from their arrays. Hence:
//
//   slots    each rank gives each rank of its host a slot: the sizes of all blocks that go to or
//            through this rank, then the carried ones of them, if they fit. The ranks compare the
//            sizes of the blocks that stay in the host
//   inside   the same for the carried blocks of ranks where they do not fit
//   between  a carrier sends the sizes of all blocks for a remote rank, also of those not carried,
//            then one message with the carried ones. The remote rank knows the sizes from its own
//            arrays, posts both receives at once, straight into the caller's memory, and names the
//            pair of ranks whose arrays differ
//
// Whether a block is carried depends on its size alone, so that its two ranks agree. For one
// thread.
class CarriedBlocks {
 public:
  CarriedBlocks(RankContext& context, HostGroup& group, const HostCarriers& carriers,
                HostInside& inside, HostScratch& bounce);

  // Posts the messages of the carried blocks of |request|, an all_to_all_v whose fingerprint is
  // set, and sets |*out_rest| to the same call without these blocks. |request| stays valid until
  // finish() has returned. After a failure of start() or finish() the caller fails the wires and
  // calls settle(). KEEL_INVALID_ARGUMENT: two ranks differ in the size of a block, or a message
  // belongs to another call: see calls().
  Status start(const Request& request, const MayCarry& may_carry, WireWait& wait,
               Request* out_rest);
  // Blocks until the carried blocks have arrived. The blocks that are not carried and leave the
  // host follow: a rank that expects one from a rank that has carried it would wait in vain.
  Status finish(WireWait& wait);
  // After start(): whether a rank of the host has a block for a rank of the host that was not
  // carried. The same on all ranks of the host.
  bool leaves_inside() const { return (flags_ & kLeavesInside) != 0; }
  bool is_staged() const { return send_.staged || receive_.staged; }

  // Requires failed wires. Waits until the wires touch neither the caller's memory nor the scratch.
  void settle();
  // The ranks that finish() still waited for when it failed.
  std::vector<uint32_t> awaited() const;
  // The calls of other ranks, as far as known when finish() failed with KEEL_INVALID_ARGUMENT.
  const std::vector<HostExecutor::Call>& calls() const { return calls_; }

 private:
  // A block in the caller's memory.
  struct Block {
    Piece piece;
    uint64_t bytes = 0;
    uint64_t window_at = 0;  // bytes from the start of the bounce buffer, if carried
    bool is_carried = false;
  };
  struct Message {
    WireRequest request;
    std::vector<iovec> pieces;
    uint32_t peer = 0;
    bool is_posted = false;
  };
  // Messages that keep their address and are reused in order.
  struct Messages {
    std::deque<Message> all;
    size_t used = 0;

    Message& add() {
      if (used == all.size()) all.emplace_back();
      return all[used++];
    }
  };
  // The messages from another host.
  struct Arrival {
    std::vector<uint64_t> counts;
    Message* sizes = nullptr;  // fills |counts|
    Message* data = nullptr;   // NULL: no carried block has a byte
  };

  // Flags that a rank tells all ranks of its host.
  static constexpr uint64_t kMovesInside = 1;   // carried blocks do not fit into a slot
  static constexpr uint64_t kLeavesInside = 2;  // see leaves_inside()

  // The numbers that a slot begins with: the flags, then the elements of the blocks in the order of
  // visit_blocks().
  uint64_t told_size() const { return 2 + carriers_.most_carried(); }
  // Number |index| that local rank |local| told this rank.
  uint64_t told_by(uint64_t local, uint64_t index) const {
    return told_[local * told_size() + index];
  }
  // Calls |visit|(rank) for each rank whose block goes to local rank |local|: this one itself, then
  // the ranks that it carries for.
  template <typename Visit>
  void visit_blocks(uint64_t local, const Visit& visit) const {
    visit(this->local()[local]);
    for (const uint32_t rank : carriers_.carried_by(local)) visit(rank);
  }

  Status begin(const MayCarry& may_carry, WireWait& wait);
  Status exchange_slots(WireWait& wait);
  Status exchange_inside(WireWait& wait);
  Status run_inside(Request& part, WireWait& wait);
  // Copies the carried blocks for local rank |local| to |to|.
  void pack(uint64_t local, char* to) const;
  void post_between();
  Status await_between(WireWait& wait);
  void post_receives(uint32_t host);
  // Posts the blocks for rank |carried| of carriers_.carried().
  void post_sends(uint64_t carried);
  void post(Message& message, uint32_t peer, bool is_send);
  // Waits until the wires are done with |message|, whose status may be a failure then.
  Status await(Message& message, WireWait& wait);
  // Compares the sizes from |host| with the rank's own arrays.
  Status check(uint32_t host);
  // Collects the calls of the ranks whose messages arrive soon.
  void collect_calls();
  Status deliver(WireWait& wait);
  Status mismatch(uint32_t sender, uint64_t sent, uint32_t receiver, uint64_t received) const;

  // Bytes of a slot behind its numbers.
  uint64_t slot_room() const;
  // Whether the carrier sends a block of |count| elements.
  bool carries(uint64_t count) const;
  char* arrival_of(const Block& block) const;
  const std::vector<uint32_t>& local() const { return group_.hosts()[group_.host()]; }
  uint64_t local_size() const { return local().size(); }

  RankContext& context_;
  HostGroup& group_;
  const HostCarriers& carriers_;
  HostInside& inside_;
  HostScratch& bounce_;  // its bounce buffers
  HostScratch slots_;
  HostScratch scratch_;
  const Request* request_ = nullptr;
  const MayCarry* may_carry_ = nullptr;
  uint64_t element_ = 1;
  Side send_;
  Side receive_;
  std::vector<Block> sent_;             // by rank
  std::vector<Block> received_;         // by rank
  std::vector<uint64_t> packed_bytes_;  // carried blocks for each local rank
  uint64_t flags_ = 0;                  // of this rank; then those of all ranks of the host
  char* arrived_slots_ = nullptr;
  std::vector<uint64_t> told_;
  // Blocks that the ranks of the host gave this rank, in slots or scratch: by local rank, then in
  // the order of visit_blocks(). Empty where a block is not carried.
  std::vector<iovec> collected_;
  std::vector<uint64_t> outgoing_counts_;  // by carriers_.carried(), then by local rank
  std::vector<Arrival> arrivals_;          // by host
  Messages sends_;
  Messages receives_;
  std::vector<HostExecutor::Call> calls_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HOSTS_CARRIED_BLOCKS_H_
