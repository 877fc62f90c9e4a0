// SPDX-License-Identifier: Apache-2.0
// Reads memory of other processes outside of shared objects, by cross-memory attach (CMA).
#ifndef KEEL_COLLECTIVES_TRANSPORTS_ATTACH_H_
#define KEEL_COLLECTIVES_TRANSPORTS_ATTACH_H_

#include <cstdint>
#include <vector>

#include "collectives/bootstrap/identity.h"
#include "collectives/transports/operation_board.h"
#include "core/range_lookup_cache.h"
#include "core/status.h"

namespace keel {

// Copies |bytes| at |address| of the process |pid| to |out|: process_vm_readv(2), one copy by the
// kernel. KEEL_UNAVAILABLE where the process does not exist or refuses to be read; KEEL_RANK_FAILED
// where the process has no such memory.
Status read_process(int64_t pid, uint64_t address, void* out, uint64_t bytes);

// Agreement of all ranks on publishing plain addresses instead of staging copies. The kernel
// decides whether one process may read another (ptrace_scope, containers, users), so each rank
// tries, by reading the tokens of peer processes. No rank tries before some rank had to stage a
// buffer for lack of attach (kWantsAttach in its operation descriptor), because a sandbox may kill
// a process for trying. All ranks see that descriptor and proceed in step: with the next operation
// they publish the addresses of their tokens, with the second whether they read all peer tokens; if
// all ranks did, addresses are published from the third on, else never. KEEL_ATTACH=0 disables
// attach. For one thread.
class Attach {
 public:
  Attach() = default;  // never: all ranks are in one process
  Attach(const std::vector<PeerInfo>& peer_infos, uint32_t rank);

  // Notes that this rank has a buffer that other ranks could read by attach.
  void want() { is_wanted_ = true; }
  // Notes that another rank's descriptor of operation |sequence| has kWantsAttach.
  void wake(uint64_t sequence) {
    if (state_ != State::kAsleep) return;
    state_ = State::kAwake;
    woken_ = sequence;
  }
  // Adds this rank's part of the agreement to |descriptor|, its descriptor of operation |sequence|.
  // Reads the other ranks' descriptors of the operation before, all of which are published.
  void tell(OperationBoard& board, uint64_t sequence, OperationDescriptor* descriptor) {
    if (state_ == State::kAwake || (is_wanted_ && state_ == State::kAsleep)) [[unlikely]] {
      tell_on(board, sequence, descriptor);
    }
  }
  // Whether all peers can read this process.
  bool is_agreed() const { return state_ == State::kAgreed; }
  // Whether peers can read |bytes| >= 1 at |pointer|: not device or secret memory, and nothing
  // after the process made itself unreadable (PR_SET_DUMPABLE). The kernel is asked once per range,
  // as long as |registrations|, the registration state of |pointer|'s device, is unchanged: asking
  // takes a fifth of the time in which one rank reads 64 KiB.
  bool lets_read(const void* pointer, uint64_t bytes, uint64_t registrations);

 private:
  enum class State : uint8_t { kNever, kAsleep, kAwake, kAgreed };

  void tell_on(OperationBoard& board, uint64_t sequence, OperationDescriptor* descriptor);
  // Both read the descriptors of |sequence|.
  bool can_read_all(OperationBoard& board, uint64_t sequence) const;
  bool all_can(OperationBoard& board, uint64_t sequence) const;

  State state_ = State::kNever;
  bool is_wanted_ = false;
  uint64_t woken_ = 0;
  RangeLookupCache ordinary_;  // ranges readable by other ranks, by registration state
  const std::vector<PeerInfo>* peer_infos_ = nullptr;
  uint32_t rank_ = 0;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_ATTACH_H_
