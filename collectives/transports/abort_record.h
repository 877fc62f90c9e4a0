// SPDX-License-Identifier: Apache-2.0
// Abort record of a communicator's ranks on one host: the first failure, and the absent ranks.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_ABORT_RECORD_H_
#define KEEL_COLLECTIVES_TRANSPORTS_ABORT_RECORD_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "base/ipc/file_descriptor.h"
#include "collectives/transports/wake_words.h"
#include "core/status.h"

namespace keel {

// Lies in the memory of a control segment. Thread-safe.
class AbortRecord {
 public:
  enum class Absence : uint32_t {
    kNone,
    kLeft,  // left the communicator in an orderly way
    // After completing every operation that the rank published:
    kDied,      // its process ended
    kReplaced,  // its process called exec
  };
  struct Shared {
    alignas(64) std::atomic<uint32_t> state;  // 0 none, 1 being written, 2 readable
    int32_t code;
    std::atomic<uint32_t> absent;  // ranks that left or died
    char text[436];
  };
  struct alignas(64) RankRecord {
    std::atomic<Absence> absence;
    std::atomic<uint32_t> busy;
  };

  // |ranks|: one record per rank. |words|: of the threads that a failure wakes.
  AbortRecord(Shared& shared, RankRecord* ranks, uint32_t world, const WakeWords& words)
      : shared_(&shared), ranks_(ranks), world_(world), words_(words) {}
  AbortRecord(const AbortRecord&) = delete;
  AbortRecord& operator=(const AbortRecord&) = delete;

  const WakeWords& words() const { return words_; }

  // ---- the failure ----
  // Records |status| unless a failure is already recorded, and wakes all waiters.
  void abort(const Status& status);
  // The same for a process that could not map |file|, whose record is |offset| bytes from the
  // start. Parked threads notice within WaitPolicy::kSliceNs.
  static void abort_unmapped(const FileDescriptor& file, uint64_t offset, const Status& status);
  bool failed() const { return shared_->state.load(std::memory_order_seq_cst) != 0; }
  // Returns KEEL_OK, or the recorded failure.
  Status status() const;

  // ---- absent ranks ----
  // From now on every wait for |rank| fails, and no other wait: peers may still be completing
  // operations that |rank| has finished.
  void leave(uint32_t rank, Absence how = Absence::kLeft);
  Absence absence(uint32_t rank) const {
    return ranks_[rank].absence.load(std::memory_order_acquire);
  }
  bool has_left(uint32_t rank) const { return absence(rank) != Absence::kNone; }
  // Returns the failure of waits for the absent |rank|; KEEL_OK if |rank| is present.
  Status absence_status(uint32_t rank) const;
  static Status absence_status(Absence how, const std::string& name);
  // Returns the failure of the lowest rank that died or called exec; KEEL_OK if none did.
  Status first_death() const;
  // Whether |missing|(rank) holds for an absent rank.
  template <typename Missing>
  bool is_any_absent(const Missing& missing) const {
    for (uint32_t rank = 0; any_absent() && rank < world_; ++rank) {
      if (has_left(rank) && missing(rank)) return true;
    }
    return false;
  }
  // Aborts for each absent rank for which |missing|(rank) holds. Returns true, without an abort,
  // once |ready|() holds: operations that a rank finished before it left or died still count.
  template <typename Ready, typename Missing>
  bool abort_for_absent(const Ready& ready, const Missing& missing) {
    for (uint32_t rank = 0; any_absent() && rank < world_; ++rank) {
      if (!has_left(rank) || !missing(rank)) continue;
      // |missing| may rely on state that |ready| read before the rank left.
      if (ready()) return true;
      if (missing(rank)) abort(absence_status(rank));
    }
    return false;
  }
  // Sets how failures name absent ranks; default: "rank 3". Call before the first wait.
  void name_ranks_by(std::function<std::string(uint32_t)> name) { name_ = std::move(name); }

  // |rank| begins or ends work with its peers outside of published operations: splitting the
  // communicator, or joining a native library's communicator.
  void set_busy(uint32_t rank, bool is_busy) {
    ranks_[rank].busy.store(is_busy ? 1 : 0, std::memory_order_release);
  }
  bool is_busy(uint32_t rank) const {
    return ranks_[rank].busy.load(std::memory_order_acquire) != 0;
  }

 private:
  bool any_absent() const { return shared_->absent.load(std::memory_order_acquire) != 0; }

  Shared* const shared_;
  RankRecord* const ranks_;
  const uint32_t world_;
  const WakeWords words_;
  std::function<std::string(uint32_t)> name_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_ABORT_RECORD_H_
