// SPDX-License-Identifier: Apache-2.0
// Operation board: the descriptors by which the ranks of one host meet in their operations.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_OPERATION_BOARD_H_
#define KEEL_COLLECTIVES_TRANSPORTS_OPERATION_BOARD_H_

#include <atomic>
#include <cstdint>

#include "collectives/fingerprint.h"
#include "collectives/transports/mem_handle.h"
#include "collectives/transports/wait_context.h"
#include "collectives/transports/waiter.h"
#include "collectives/transports/wake_words.h"
#include "core/deadline.h"
#include "core/status.h"

namespace keel {

// Operation descriptor: one rank's call of one operation, written by the rank and read by all
// peers.
struct alignas(64) OperationDescriptor {
  static constexpr uint32_t kSendStaged = 1;  // bits of |flags|
  static constexpr uint32_t kReceiveStaged = 2;
  static constexpr uint32_t kInPlace = 4;
  static constexpr uint32_t kSendAttached = 8;   // |send| is an address in every process
  static constexpr uint32_t kWantsAttach = 16;   // |send| could be one: see transports/attach.h
  static constexpr uint32_t kAttaches = 32;      // the rank reads all peer processes
  static constexpr uint32_t kSumsOnDevice = 64;  // the rank's side of bridge/device_reduction.h
  // The upper 16 bits of |flags| are the number of the rank's call: enough to detect a missing
  // call.
  static constexpr uint32_t kCallShift = 16;

  // Number of the operation plus one; stored last, to publish the descriptor. Shares its cache line
  // with small messages, so that a small message costs one transfer between two cores.
  std::atomic<uint64_t> sequence;
  Fingerprint fingerprint;
  double factor;  // of KEEL_PREMUL_SUM
  int32_t status;
  uint32_t flags;
  uint8_t small[24];
  MemHandle send;
  MemHandle receive;
  MemHandle work;         // scratch for multi-step algorithms, read by peers
  uint64_t largest;       // elements of the largest piece that the rank sends or receives
  uint64_t token;         // address of the process's token: see transports/attach.h
  uint32_t memory_epoch;  // increases when objects of earlier addresses may be gone
  // Bandwidth of the copies from the rank's device to the host and back, in GB/s; 0: unknown. An
  // operation uses the values that all ranks published with the operation before.
  float link_out;
  float link_in;
  char text[132];  // failure text, when |status| is not KEEL_OK
};
static_assert(sizeof(OperationDescriptor) == 320);

// An operation of a rank passes three states on the board:
//   published   the rank's descriptor and its eager data may be read by the peers
//   matched     all ranks have published
//   done        the rank no longer reads any descriptor of the operation
// A descriptor is reused kDescriptors operations later, once all ranks are done. Barriers have
// steps of their own, numbered from 1.
//
// Lies in the memory of a control segment. Thread-safe, provided that each rank's own entries are
// used by one thread.
class OperationBoard {
 public:
  static constexpr uint32_t kDescriptors = WakeWords::kDescriptors;
  // Bytes of eager data per descriptor, and eager buffers per rank. Two buffers suffice: a rank
  // that publishes operation n has seen all descriptors of n - 1, so all ranks are done with n - 2.
  static constexpr uint64_t kEagerBytes = 64 << 10;
  static constexpr uint32_t kEagerPlaces = 2;

  struct Shared {
    alignas(64) std::atomic<uint64_t> matched;  // urgent communicator: number of matched operations
  };
  struct alignas(64) RankRecord {
    std::atomic<uint64_t> step;
    alignas(64) std::atomic<uint64_t> done;
    std::atomic<uint64_t> shown;        // see show_call()
    std::atomic<uint64_t> shown_count;  // fingerprint of the shown call
    std::atomic<uint64_t> shown_kind;
  };
  struct Memory {
    Shared* shared;
    RankRecord* ranks;                 // one per rank
    OperationDescriptor* descriptors;  // kDescriptors per rank
    uint8_t* eager;                    // kEagerPlaces buffers of kEagerBytes per rank
    uint64_t* layouts;                 // |world| pairs per rank
  };

  OperationBoard(const Memory& memory, uint32_t world, const Waiter& waiter)
      : waiter_(waiter), memory_(memory), world_(world) {}
  OperationBoard(const OperationBoard&) = delete;
  OperationBoard& operator=(const OperationBoard&) = delete;

  uint32_t world() const { return world_; }
  OperationDescriptor& descriptor(uint32_t rank, uint64_t sequence) const {
    return memory_.descriptors[uint64_t{rank} * kDescriptors + sequence % kDescriptors];
  }
  // Eager data of the descriptor: up to kEagerBytes.
  uint8_t* eager(uint32_t rank, uint64_t sequence) const {
    return memory_.eager + (uint64_t{rank} * kEagerPlaces + sequence % kEagerPlaces) * kEagerBytes;
  }
  // Offsets and counts of the vector collectives, by peer.
  uint64_t* layout(uint32_t rank) const { return memory_.layouts + uint64_t{rank} * world_ * 2; }

  // ---- published ----
  // Whether all ranks are done with operation |sequence| - kDescriptors, whose slot |sequence|
  // reuses.
  bool has_room(uint64_t sequence);
  void publish(uint32_t rank, uint64_t sequence);
  // Publish in two steps, the time between which hides the transfer of descriptors from core to
  // core. poll_published() returns whether all ranks have published after at most |turns| polls,
  // between which the thread waits as await_descriptors() does before parking. |eager_bytes|: eager
  // data of the descriptor.
  void publish_ahead(uint32_t rank, uint64_t sequence);
  bool poll_published(uint32_t rank, uint64_t sequence, uint32_t turns, uint64_t eager_bytes);
  bool all_published(uint64_t sequence) const;
  bool has_published(uint32_t rank, uint64_t sequence) const {
    // A later sequence also counts: a rank reuses the slot only after all ranks are done with
    // |sequence|.
    return descriptor(rank, sequence).sequence.load(std::memory_order_seq_cst) > sequence;
  }

  // ---- done ----
  // |rank| no longer reads any descriptor up to |sequence|. |urgent|: the communicator is urgent,
  // so operations of other communicators wait for the end of this operation. For a non-urgent one
  // only await_room() waits, and there always is room: a rank that has published one operation is
  // done with the operation before.
  void publish_done(uint32_t rank, uint64_t sequence, bool urgent);
  bool is_done(uint32_t rank, uint64_t sequence) const {
    return memory_.ranks[rank].done.load(std::memory_order_seq_cst) > sequence;
  }
  // Whether |rank| is done with every operation that it has published.
  bool is_done_with_all(uint32_t rank) const;

  // ---- urgent communicators, to which other communicators yield ----
  // Marks operation |sequence| as matched: some rank has seen that all ranks published it.
  void publish_matched(uint64_t sequence);
  // Whether some rank is not done with a matched operation; never after a failure.
  bool is_under_way();
  // Waits until no matched operation is under way, or until the deadline. Parks without spinning,
  // because a thread that yields must free its core.
  void await_over(const Deadline& deadline);

  // ---- calls of a rank beside its descriptors, for diagnostics ----
  // Kind of the shown call: nothing, a call that the rank will publish once its stream reaches it,
  // messages with other hosts, or the collective with this number, less kShownCollective, among
  // several hosts.
  static constexpr uint64_t kShownNothing = 0;
  static constexpr uint64_t kShownHeld = 1;
  static constexpr uint64_t kShownMessages = 2;
  static constexpr uint64_t kShownCollective = 3;
  void show_call(uint32_t rank, uint64_t shown, const Fingerprint& print);
  void hide_call(uint32_t rank);
  // Returns the kind of the call. kShownNothing also while |rank| changes it.
  uint64_t shown_call(uint32_t rank, Fingerprint* out_print) const;

  // ---- barriers ----
  // All ranks pass the same steps. A rank may be at most two steps ahead of the slowest: it awaits
  // every step, except steps in which no peer reads its data.
  void arrive(uint32_t rank, uint64_t step);
  bool all_arrived(uint64_t step) const;
  bool has_arrived(uint32_t rank, uint64_t step) const {
    return memory_.ranks[rank].step.load(std::memory_order_seq_cst) >= step;
  }

  // ---- waits: see Waiter::await() ----
  Status await_room(uint64_t sequence, WaitContext& wait_context);
  Status await_descriptors(uint64_t sequence, WaitContext& wait_context);
  Status await_step(uint64_t step, WaitContext& wait_context);

 private:
  const WakeWords& words() const { return waiter_.words(); }
  // Whether all ranks are done with the first |operations|.
  bool all_done(uint64_t operations);
  // The counts of an oversubscribed host's slots once all ranks have published |sequence|, and
  // arrived at |step|: the steps 1 to |step| used its slot this often.
  uint32_t publications_by(uint64_t sequence) const {
    return static_cast<uint32_t>((sequence / kDescriptors + 1) * world_);
  }
  uint32_t arrivals_by(uint64_t step) const {
    return static_cast<uint32_t>((step + WakeWords::kSteps - 1) / WakeWords::kSteps * world_);
  }

  const Waiter waiter_;
  const Memory memory_;
  const uint32_t world_;
  std::atomic<uint64_t> over_{0};  // operations known to be complete on all ranks
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_OPERATION_BOARD_H_
