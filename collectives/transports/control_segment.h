// SPDX-License-Identifier: Apache-2.0
// Shared memory of a communicator's ranks on one host: operation descriptors, progress counters,
// point-to-point slots and failures.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_CONTROL_SEGMENT_H_
#define KEEL_COLLECTIVES_TRANSPORTS_CONTROL_SEGMENT_H_

#include <keel/keel.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>

#include "base/ipc/file_descriptor.h"
#include "collectives/fingerprint.h"
#include "collectives/selection/selection.h"
#include "collectives/transports/wait_context.h"
#include "core/deadline.h"
#include "core/status.h"

namespace keel {

// Remote address of a buffer: |address| in the owner's process; in other processes, |offset| bytes
// into the shared memory object (device, inode), which the owner's MemHandleServer hands out.
struct MemHandle {
  uint64_t address = 0;
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t offset = 0;
};

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

// Point-to-point slot: one message from one rank to another, outside of collectives.
struct alignas(64) PointToPointSlot {
  std::atomic<uint64_t> sequence;   // as in OperationDescriptor, counted per ordered pair of ranks
  std::atomic<uint64_t> available;  // chunks staged by the sender so far
  std::atomic<uint64_t> taken;      // chunks read by the receiver so far
  std::atomic<uint64_t> answered;   // sequence + 1, once the receiver is done
  uint64_t count;
  uint32_t dtype;
  uint32_t flags;
  int32_t status;         // sender's, set with |sequence|: why its call was refused
  int32_t answer;         // receiver's, set with |answered|
  int32_t refusal;        // why the receiver's call was refused, if |answer| is KEEL_RANK_FAILED
  uint32_t buffered;      // 1 + index of the sender's message buffer with the data; 0: at |send|
  uint64_t wanted_count;  // receiver's count and type, if |answer| is a mismatch
  uint32_t wanted_dtype;
  uint32_t memory_epoch;
  MemHandle send;
};
static_assert(sizeof(PointToPointSlot) == 128);

// Point-to-point progress of one rank, read by the deadlock detection: see deadlock_detector.h.
struct alignas(64) PointToPointProgress {
  std::atomic<uint64_t> version;   // odd while the rank writes here or to its counters
  std::atomic<uint32_t> messages;  // messages in progress; 0: none
  // The first message in progress.
  std::atomic<uint32_t> sends;
  std::atomic<uint32_t> peer;
  std::atomic<uint32_t> dtype;
  std::atomic<uint64_t> count;
};

// Number of messages that a rank has begun with one peer.
struct ProgressCounters {
  std::atomic<uint64_t> sends;
  std::atomic<uint64_t> receives;
  // The rank waits until the peer has begun so many receives: less than |sends| where the last
  // sends were buffered.
  std::atomic<uint64_t> awaited_sends;
};

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

// The segment has no name and lives as long as some process maps it: a killed process leaves
// nothing behind. All ranks belong to one user; even so, values read from the segment are validated
// like untrusted input before any memory is accessed through them.
//
// Waits for all ranks work in one of two modes, chosen at creation. Dedicated (a core per rank):
// every rank has a flag, which its peers poll: one cache line transfer. Oversubscribed (more ranks
// than cores): ranks increment a shared count, and only the last rank wakes the sleepers: a wake-up
// costs 2 to 5 us, and flags would need one wake-up per pair.
//
// Thread-safe, provided that each rank's own entries are used by one thread.
class ControlSegment {
 public:
  static constexpr uint32_t kDescriptors = 16;  // operations that a rank may be ahead
  // Bytes of eager data per descriptor, and eager buffers per rank. Two buffers suffice: a rank
  // that publishes operation n has seen all descriptors of n - 1, so all ranks are done with n - 2.
  static constexpr uint64_t kEagerBytes = 64 << 10;
  static constexpr uint32_t kEagerPlaces = 2;
  static constexpr uint32_t kSlots = 2;  // messages in flight per pair
  // Buffers of kEagerBytes per rank for messages whose receive has not begun: a ring's two
  // neighbours, each with both of its slots.
  static constexpr uint32_t kMessageBuffers = 4;
  static constexpr uint32_t kMostRanks = 4096;

  // Creates the memory of a segment for |world| ranks. |oversubscribed|: oversubscribed.
  static Status create(uint32_t world, bool oversubscribed, FileDescriptor* out_file);
  // Maps a segment that some process created; KEEL_INVALID_ARGUMENT if |file| is no segment.
  static Status map(const FileDescriptor& file, std::unique_ptr<ControlSegment>* out_segment);
  ~ControlSegment();
  ControlSegment(const ControlSegment&) = delete;
  ControlSegment& operator=(const ControlSegment&) = delete;

  uint32_t world() const { return world_; }
  bool oversubscribed() const { return oversubscribed_; }
  // Chunk size of the staging pipeline in bytes; rank 0 sets the value before the first barrier.
  uint64_t chunk_bytes() const;
  void set_chunk_bytes(uint64_t bytes);
  // Tuning that selects the algorithm of each operation; rank 0 sets it, like the chunk size.
  Selection selection() const;
  void set_selection(const Selection& selection);

  // ---- operations ----
  OperationDescriptor& post(uint32_t rank, uint64_t sequence) {
    return posts_[uint64_t{rank} * kDescriptors + sequence % kDescriptors];
  }
  // Eager data of the descriptor: up to kEagerBytes.
  uint8_t* eager(uint32_t rank, uint64_t sequence) {
    return eager_ + (uint64_t{rank} * kEagerPlaces + sequence % kEagerPlaces) * kEagerBytes;
  }
  // Whether all ranks are done with operation |sequence| - kDescriptors, whose slot |sequence|
  // reuses.
  bool has_room(uint64_t sequence);
  void publish_descriptor(uint32_t rank, uint64_t sequence);
  // Publish in two steps, the time between which hides the transfer of descriptors from core to
  // core. poll_published() returns whether all ranks have published after at most |turns| polls,
  // between which the thread waits as await_descriptors() does before parking. |eager_bytes|: eager
  // data of the descriptor.
  void publish_ahead(uint32_t rank, uint64_t sequence);
  bool poll_published(uint32_t rank, uint64_t sequence, uint32_t turns, uint64_t eager_bytes);
  bool all_published(uint64_t sequence);
  // |rank| no longer reads any descriptor up to |sequence|. |urgent|: the communicator is urgent,
  // so operations of other communicators wait for the end of this operation. For a non-urgent one
  // only await_room() waits, and there always is room: a rank that has published one operation is
  // done with the operation before.
  void publish_done(uint32_t rank, uint64_t sequence, bool urgent);

  // ---- urgent communicators, to which other communicators yield ----
  // Marks operation |sequence| as matched: some rank has seen that all ranks published it.
  void publish_matched(uint64_t sequence);
  // Whether some rank is not done with a matched operation; never after a failure.
  bool is_under_way();
  // Waits until no matched operation is under way, or until the deadline. Parks without spinning,
  // because a thread that yields must free its core.
  void await_over(const Deadline& deadline);

  // ---- barriers ----
  // All ranks pass the same steps, numbered from 1. A rank may be at most two steps ahead of the
  // slowest: it awaits every step, except steps in which no peer reads its data.
  void arrive(uint32_t rank, uint64_t step);
  bool all_arrived(uint64_t step);

  // ---- messages ----
  PointToPointSlot& slot(uint32_t from, uint32_t to, uint64_t sequence) {
    return slots_[(uint64_t{from} * world_ + to) * kSlots + sequence % kSlots];
  }
  // Buffer |index| of the messages that |rank| sends; at most kEagerBytes.
  uint8_t* message_buffer(uint32_t rank, uint32_t index) {
    return message_buffers_ + (uint64_t{rank} * kMessageBuffers + index) * kEagerBytes;
  }
  // Wakes |rank| after a change of its point-to-point slots.
  void notify_slot(uint32_t rank);
  PointToPointProgress& progress(uint32_t rank);
  // Fingerprint of the call that |rank| will publish once its stream reaches the call, for
  // diagnostics: describe_progress_of_all().
  void set_held(uint32_t rank, const Fingerprint& print);
  void clear_held(uint32_t rank);
  bool is_held(uint32_t rank, Fingerprint* out_print) const;
  ProgressCounters& counters(uint32_t rank, uint32_t peer) {
    return counters_[uint64_t{rank} * world_ + peer];
  }

  // ---- counts and offsets of the vector collectives: |world| pairs per rank ----
  uint64_t* layout(uint32_t rank) { return layouts_ + uint64_t{rank} * world_ * 2; }

  // ---- the agreement of a shrink, which outlasts the communicator's failure ----
  ShrinkSlot& shrink_slot(uint32_t rank) { return shrinks_[rank]; }
  // Two times the number of abandoned rounds, plus one once a round is committed.
  std::atomic<uint64_t>& shrink_stage();

  // ---- waiting ----
  // Each call waits until the condition holds, the communicator fails, an awaited rank is absent or
  // the deadline passes. The failure at the deadline names no rank.
  Status await_room(uint64_t sequence, WaitContext& wait_context);
  Status await_descriptors(uint64_t sequence, WaitContext& wait_context);
  Status await_step(uint64_t step, WaitContext& wait_context);
  // Waits until |ready|() returns true; evaluated again after each notify_slot(|rank|).
  // |missing|(peer): whether the wait depends on the rank |peer|. |look|() is called now and then
  // while the thread is parked, and may abort.
  template <typename Ready, typename Missing, typename Look>
  Status await_slot(uint32_t rank, const Ready& ready, const Missing& missing, const Look& look,
                    WaitContext& wait_context);
  // Whether |rank| has published operation |sequence|, is done with it, or has arrived at |step|.
  bool has_published(uint32_t rank, uint64_t sequence);
  bool is_done(uint32_t rank, uint64_t sequence);
  bool has_arrived(uint32_t rank, uint64_t step);

  // ---- failures ----
  // Records |status| unless a failure is already recorded, and wakes all waiters.
  void abort(const Status& status);
  // The same for a process that could not map |file|. Parked threads notice within
  // WaitContext::kSliceNs.
  static void abort_unmapped(const FileDescriptor& file, const Status& status);
  // Returns KEEL_OK, or the recorded failure.
  Status failure_status() const;
  bool failed() const;

  // ---- absent ranks ----
  enum class Absence : uint32_t {
    kNone,
    kLeft,  // left the communicator in an orderly way
    // After completing every operation that the rank published:
    kDied,      // its process ended
    kReplaced,  // its process called exec
  };
  // From now on every wait for |rank| fails, and no other wait: peers may still be completing
  // operations that |rank| has finished.
  void leave(uint32_t rank, Absence how = Absence::kLeft);
  Absence absence(uint32_t rank) const;
  bool has_left(uint32_t rank) const { return absence(rank) != Absence::kNone; }
  // Returns the failure of waits for the absent |rank|; KEEL_OK if |rank| is present.
  Status absence_status(uint32_t rank) const;
  static Status absence_status(Absence how, const std::string& name);
  // Returns the failure of the lowest rank that died or called exec; KEEL_OK if none did.
  Status first_death() const;
  // Sets how failures name absent ranks; default: "rank 3". Call before the first wait.
  void name_ranks_by(std::function<std::string(uint32_t)> name) { name_ = std::move(name); }
  // |rank| begins or ends work with its peers outside of published operations: splitting the
  // communicator, or joining a native library's communicator.
  void set_busy(uint32_t rank, bool is_busy);
  // Whether |rank|, whose process has ended, had finished all that it began.
  bool is_at_rest(uint32_t rank);

 private:
  struct Header;
  struct Cell;

  ControlSegment() = default;

  // |missing|(rank): whether |ready| waits for that rank.
  template <typename Ready, typename Missing, typename Look>
  Status await(std::atomic<uint32_t>& word, const Ready& ready, const Missing& missing,
               const Look& look, WaitContext& wait_context);
  template <typename Ready, typename Missing>
  Status await(std::atomic<uint32_t>& word, const Ready& ready, const Missing& missing,
               WaitContext& wait_context) {
    return await(
        word, ready, missing, [] {}, wait_context);
  }
  // Returns the reason to stop waiting, if any.
  Status check_waiting(WaitContext& wait_context) const;
  // Sleeps while |word| equals |seen|, until wake(|word|), for one slice or until |deadline| at
  // most.
  void park(std::atomic<uint32_t>& word, uint32_t seen, const Deadline& deadline);
  void wake(std::atomic<uint32_t>& word);
  Cell& cell(uint32_t rank) const;
  // Whether all ranks are done with the first |operations|.
  bool all_done(uint64_t operations);
  std::atomic<uint32_t>& post_count(uint64_t sequence);
  std::atomic<uint32_t>& step_count(uint64_t step);
  std::atomic<uint32_t>& slot_word(uint32_t rank);
  void begin_sleep();
  void end_sleep();
  void relax(uint32_t turn) const;
  // Whether a spinning wait parks at once, where the thread finds the failure. Oversubscribed: on
  // cores that other programs use too, 200 calls of sched_yield() may take seconds.
  bool ends_spin() const { return oversubscribed_ && failed(); }
  bool poll_descriptors(uint64_t sequence, uint32_t turns);
  // Wakes the waiters for any flag.
  void wake_sleepers();
  // Whether |missing|(rank) holds for an absent rank.
  template <typename Missing>
  bool waits_for_absent(const Missing& missing) const;
  bool any_absent() const;

  void* memory_ = nullptr;
  uint64_t bytes_ = 0;
  Header* header_ = nullptr;
  Cell* cells_ = nullptr;
  OperationDescriptor* posts_ = nullptr;
  uint8_t* eager_ = nullptr;
  uint8_t* message_buffers_ = nullptr;
  PointToPointSlot* slots_ = nullptr;
  ProgressCounters* counters_ = nullptr;
  uint64_t* layouts_ = nullptr;
  ShrinkSlot* shrinks_ = nullptr;
  uint32_t world_ = 0;
  bool oversubscribed_ = false;
  uint32_t spins_ = 0;             // polls before a wait parks
  std::atomic<uint64_t> over_{0};  // operations known to be complete on all ranks
  std::function<std::string(uint32_t)> name_;
};

template <typename Missing>
bool ControlSegment::waits_for_absent(const Missing& missing) const {
  for (uint32_t rank = 0; any_absent() && rank < world_; ++rank) {
    if (has_left(rank) && missing(rank)) return true;
  }
  return false;
}

template <typename Ready, typename Missing, typename Look>
Status ControlSegment::await(std::atomic<uint32_t>& word, const Ready& ready,
                             const Missing& missing, const Look& look, WaitContext& wait_context) {
  const uint32_t spins = wait_context.spins(spins_);
  for (uint32_t turn = 0; turn < spins; ++turn) {
    if (ready()) {
      wait_context.note_spins(true);
      return {};
    }
    if (ends_spin()) break;
    relax(turn);
  }
  wait_context.note_spins(ready());
  while (true) {
    const uint32_t seen = word.load(std::memory_order_acquire);
    begin_sleep();
    const bool is_ready = ready();
    if (!is_ready && !failed() && !waits_for_absent(missing))
      park(word, seen, wait_context.deadline());
    end_sleep();
    if (is_ready) return {};
    // Operations that a rank finished before it left or died still count.
    for (uint32_t rank = 0; any_absent() && rank < world_; ++rank) {
      if (!has_left(rank) || !missing(rank)) continue;
      // |missing| may rely on state that |ready| read before the rank left.
      if (ready()) return {};
      if (missing(rank)) abort(absence_status(rank));
    }
    look();
    const Status status = check_waiting(wait_context);
    if (ready()) return {};
    if (!status.ok()) return status;
  }
}

template <typename Ready, typename Missing, typename Look>
Status ControlSegment::await_slot(uint32_t rank, const Ready& ready, const Missing& missing,
                                  const Look& look, WaitContext& wait_context) {
  return await(slot_word(rank), ready, missing, look, wait_context);
}

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_CONTROL_SEGMENT_H_
