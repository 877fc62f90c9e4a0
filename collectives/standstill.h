// SPDX-License-Identifier: Apache-2.0
// Whether the ranks of a communicator wait for each other for good.
#ifndef KEEL_COLLECTIVES_STANDSTILL_H_
#define KEEL_COLLECTIVES_STANDSTILL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/operation.h"
#include "collectives/team.h"
#include "collectives/transports/control_segment.h"

namespace keel {

// Collectives carry fingerprints, which are compared once all have come. A rank that is at a
// message while another is at a collective never comes, so that this is found out another way:
//
// The operations of a rank are done one after the other, and what has to be there for one to end
// is known: all ranks have to post a collective, and the peer of each message has to begin the
// other half of it. Each rank counts what it has begun, before anything is moved. So
//   a waits for b   when a has begun something whose other half b has not: a cannot leave what it
//                   is at before b has left what it is at and begins another operation.
// Ranks that wait for each other in a circle never go on, whatever the program does next. A
// legal program has no circle, at no moment: who sees one has found a mistake.
//
// Each of these statements stays true until b leaves, so it does not matter that a circle's are
// looked at one after the other; but all that is said of one rank has to be of one moment: a group
// is begun message by message. So a rank has a version, odd meanwhile, and another one after.

// |rank| begins, and ends, |transfers|. |sent| and |received|(peer) are all that it has begun
// with the peer, with these.
template <typename Sent, typename Received>
void begin_messages(ControlSegment& segment, uint32_t rank, const std::vector<Transfer>& transfers,
                    const Sent& sent, const Received& received);
void end_messages(ControlSegment& segment, uint32_t rank);

// What a rank that is at messages sees of the others. |sequence| is its next collective, so
// each other rank is before it or has posted it: none can be further without this one.
class Standstill {
 public:
  Standstill(Team& team, uint32_t rank, uint64_t sequence)
      : team_(team), segment_(team.segment()), rank_(rank), sequence_(sequence) {}

  // A circle, from this rank on: each waits for the next, the last one for the first. Empty:
  // none was found. Of very many ranks not all are looked at.
  std::vector<uint32_t> find() const;
  // Whether all ranks are at something, so that it can be said who is odd.
  bool are_all_there() const;
  // The failure, with the odd rank by name where there is one.
  Status failure_of(const std::vector<uint32_t>& circle) const;

 private:
  bool is_at_messages(uint32_t rank) const;
  bool has_posted(uint32_t rank) const { return segment_.has_posted(rank, sequence_); }
  bool waits_for(uint32_t rank, uint32_t other) const;
  bool is_certain(const std::vector<uint32_t>& circle) const;
  // The one rank that is not at the collective that all others have called; else world.
  uint32_t find_odd() const;

  Team& team_;
  ControlSegment& segment_;
  const uint32_t rank_;
  const uint64_t sequence_;
};

// What each rank is at, for who waits in vain for operation |sequence|, or is at messages before
// it: "rank 0 is at all_reduce(8 float32, sum), rank 1 at recv(8 float32 from rank 2), rank 2 at
// nothing".
std::string describe_standings(Team& team, uint64_t sequence);

template <typename Sent, typename Received>
void begin_messages(ControlSegment& segment, uint32_t rank, const std::vector<Transfer>& transfers,
                    const Sent& sent, const Received& received) {
  if (transfers.empty()) return;
  Standing& standing = segment.standing(rank);
  const uint64_t version = standing.version.load(std::memory_order_relaxed);
  standing.version.store(version + 1, std::memory_order_relaxed);
  // Whoever reads one of these sees that the version is odd, or the one after.
  for (const Transfer& transfer : transfers) {
    Tally& tally = segment.tally(rank, transfer.peer);
    tally.sends.store(sent(transfer.peer), std::memory_order_release);
    tally.receives.store(received(transfer.peer), std::memory_order_release);
  }
  const Transfer& first = transfers.front();
  standing.sends.store(first.sends ? 1 : 0, std::memory_order_relaxed);
  standing.peer.store(first.peer, std::memory_order_relaxed);
  standing.dtype.store(first.dtype, std::memory_order_relaxed);
  standing.count.store(first.count, std::memory_order_relaxed);
  standing.messages.store(static_cast<uint32_t>(transfers.size()), std::memory_order_release);
  standing.version.store(version + 2, std::memory_order_release);
}

}  // namespace keel

#endif  // KEEL_COLLECTIVES_STANDSTILL_H_
