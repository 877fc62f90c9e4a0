// SPDX-License-Identifier: Apache-2.0
// Memory of the agreement of a shrink, in the control segment of the failed communicator.
#ifndef KEEL_COLLECTIVES_SHRINK_SLOTS_H_
#define KEEL_COLLECTIVES_SHRINK_SLOTS_H_

#include <atomic>
#include <cstdint>

namespace keel {

// One rank's part in the agreement on who is left after a failure: see shrink_agreement.h.
struct alignas(64) ShrinkSlot {
  std::atomic<uint32_t> vote;     // the last round that the rank is in; kOut: left out for good
  std::atomic<uint32_t> offered;  // the last round for which the rank made a segment
  std::atomic<uint32_t> entered;  // the last round whose communicator the rank has entered
  std::atomic<uint32_t> flags;    // PeerInfo::flags of the new communicator, written before |vote|
  std::atomic<uint64_t> device;   // ObjectId of the segment, written before |offered|
  std::atomic<uint64_t> inode;
  static constexpr uint32_t kOut = UINT32_MAX;
};

// All ranks' slots and the word that decides a round; outlasts the communicator's failure.
// Thread-safe.
class ShrinkSlots {
 public:
  struct Shared {
    alignas(64) std::atomic<uint64_t> stage;
  };

  ShrinkSlots(Shared& shared, ShrinkSlot* slots, uint32_t world)
      : shared_(&shared), slots_(slots), world_(world) {}

  uint32_t world() const { return world_; }
  // Two times the number of abandoned rounds, plus one once a round is committed.
  std::atomic<uint64_t>& stage() const { return shared_->stage; }
  ShrinkSlot& slot(uint32_t rank) const { return slots_[rank]; }

 private:
  Shared* const shared_;
  ShrinkSlot* const slots_;
  const uint32_t world_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_SHRINK_SLOTS_H_
