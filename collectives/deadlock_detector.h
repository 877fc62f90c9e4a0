// SPDX-License-Identifier: Apache-2.0
// Deadlock detection: whether the ranks of a communicator wait in a cycle.
#ifndef KEEL_COLLECTIVES_DEADLOCK_DETECTOR_H_
#define KEEL_COLLECTIVES_DEADLOCK_DETECTOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/operation.h"
#include "collectives/team.h"
#include "collectives/transports/control_segment.h"

namespace keel {

// Collectives carry fingerprints, compared once all ranks have published. A rank in a message never
// publishes while a peer waits in a collective, so a mismatch between the two needs a separate
// detector:
//
// The operations of a rank run in order, and the condition for the end of each is known: all ranks
// have to publish a collective, and the peer of each message has to begin the matching half, unless
// the message is a buffered send. Each rank counts the halves begun, before it moves data, and the
// sends that wait for their receive, once that is known. So
//   a waits for b   when a has begun an operation without b's matching half: a cannot leave the
//                   operation before b leaves its own and begins the next.
// Ranks waiting in a cycle never proceed, whatever the program does next. A legal program has no
// cycle at any moment: a cycle proves a mistake in the program.
//
// Each edge "a waits for b" stays true until b leaves, so the edges of a cycle may be read in turn.
// The counters of a single rank have to be from one moment, though: a group is begun message by
// message. So each rank has a version, odd during an update and changed after the update.

// |rank| begins, and ends, |transfers|. |sent|(peer) and |received|(peer) return the number of
// messages begun with the peer, with |transfers| included.
template <typename Sent, typename Received>
void begin_messages(PointToPointSlots& messages, uint32_t rank,
                    const std::vector<Transfer>& transfers, const Sent& sent,
                    const Received& received);
void end_messages(PointToPointSlots& messages, uint32_t rank);

// Search from a rank in messages. |sequence| is the rank's next collective: every peer is before
// |sequence| or has published it, and cannot be past it without this rank.
class DeadlockDetector {
 public:
  DeadlockDetector(Team& team, uint32_t rank, uint64_t sequence)
      : team_(team),
        board_(team.segment().board()),
        messages_(team.segment().messages()),
        rank_(rank),
        sequence_(sequence) {}

  // Returns a cycle from the rank on: each waits for the next, the last for the first. Empty if
  // there is no cycle. Looks at no more than 64 ranks.
  std::vector<uint32_t> find() const;
  // Whether all ranks are in an operation: then the odd rank can be named.
  bool are_all_there() const;
  // Returns the failure, with the name of the odd rank if any.
  Status failure_of(const std::vector<uint32_t>& circle) const;

 private:
  bool has_published(uint32_t rank) const { return board_.has_published(rank, sequence_); }
  bool waits_for(uint32_t rank, uint32_t other) const;
  bool is_certain(const std::vector<uint32_t>& circle) const;
  // Returns the only rank outside the collective called by all its peers; else UINT32_MAX.
  uint32_t find_odd() const;

  Team& team_;
  OperationBoard& board_;
  PointToPointSlots& messages_;
  const uint32_t rank_;
  const uint64_t sequence_;
};

// Describes the operation of each rank, for a failed wait for operation |sequence| or for messages
// before it: "rank 0 is at all_reduce(8 float32, sum), rank 1 at recv(8 float32 from rank 2), rank
// 2 at nothing".
std::string describe_progress_of_all(Team& team, uint64_t sequence);

template <typename Sent, typename Received>
void begin_messages(PointToPointSlots& messages, uint32_t rank,
                    const std::vector<Transfer>& transfers, const Sent& sent,
                    const Received& received) {
  if (transfers.empty()) return;
  PointToPointProgress& progress = messages.progress(rank);
  const uint64_t version = progress.version.load(std::memory_order_relaxed);
  progress.version.store(version + 1, std::memory_order_relaxed);
  // A reader of these stores sees the odd version, or the next.
  for (const Transfer& transfer : transfers) {
    ProgressCounters& counters = messages.counters(rank, transfer.peer);
    counters.sends.store(sent(transfer.peer), std::memory_order_release);
    counters.receives.store(received(transfer.peer), std::memory_order_release);
  }
  const Transfer& first = transfers.front();
  progress.sends.store(first.sends ? 1 : 0, std::memory_order_relaxed);
  progress.peer.store(first.peer, std::memory_order_relaxed);
  progress.dtype.store(first.dtype, std::memory_order_relaxed);
  progress.count.store(first.count, std::memory_order_relaxed);
  progress.messages.store(static_cast<uint32_t>(transfers.size()), std::memory_order_release);
  progress.version.store(version + 2, std::memory_order_release);
}

}  // namespace keel

#endif  // KEEL_COLLECTIVES_DEADLOCK_DETECTOR_H_
