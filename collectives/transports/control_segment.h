// SPDX-License-Identifier: Apache-2.0
// Control segment: the shared memory of a communicator's ranks on one host.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_CONTROL_SEGMENT_H_
#define KEEL_COLLECTIVES_TRANSPORTS_CONTROL_SEGMENT_H_

#include <cstdint>
#include <memory>

#include "base/ipc/file_descriptor.h"
#include "collectives/selection/selection.h"
#include "collectives/shrink_slots.h"
#include "collectives/transports/abort_record.h"
#include "collectives/transports/operation_board.h"
#include "collectives/transports/point_to_point_slots.h"
#include "collectives/transports/wait_policy.h"
#include "core/status.h"

namespace keel {

// Owns the mapping; the parts do the work:
//
//   board()      OperationBoard      collectives and barriers --+
//   messages()   PointToPointSlots   sends and receives --------+--> Waiter --> AbortRecord
//   failures()   AbortRecord         failure, absent ranks              \          |
//   shrink()     ShrinkSlots         who is left after a failure         +-> WakeWords
//
// The segment has no name and lives as long as some process maps it: a killed process leaves
// nothing behind. All ranks belong to one user; even so, values read from the segment are validated
// like untrusted input before any memory is accessed through them. The parts are valid as long as
// the object. Thread-safe, within the limits of each part.
class ControlSegment {
 public:
  // Creates the memory of a segment for |world| ranks. |oversubscribed|: see WaitPolicy.
  static Status create(uint32_t world, bool oversubscribed, FileDescriptor* out_file);
  // Maps a segment that some process created; KEEL_INVALID_ARGUMENT if |file| is no segment.
  static Status map(const FileDescriptor& file, std::unique_ptr<ControlSegment>* out_segment);
  // AbortRecord::abort() for a process that could not map |file|. If the file is no control
  // segment, or already records a failure, leaves it untouched.
  static void abort_unmapped(const FileDescriptor& file, const Status& status);
  ~ControlSegment();
  ControlSegment(const ControlSegment&) = delete;
  ControlSegment& operator=(const ControlSegment&) = delete;

  uint32_t world() const { return board_.world(); }
  const WaitPolicy& wait_policy() const { return wait_policy_; }
  bool oversubscribed() const { return wait_policy_.oversubscribed(); }
  // Chunk size of the staging pipeline in bytes; rank 0 sets the value before the first barrier.
  uint64_t chunk_bytes() const;
  void set_chunk_bytes(uint64_t bytes);
  // Tuning that selects the algorithm of each operation; rank 0 sets it, like the chunk size.
  Selection selection() const;
  void set_selection(const Selection& selection);

  OperationBoard& board() { return board_; }
  PointToPointSlots& messages() { return messages_; }
  AbortRecord& failures() { return failures_; }
  const AbortRecord& failures() const { return failures_; }
  ShrinkSlots& shrink() { return shrink_; }

  // Whether |rank|, whose process has ended, had finished all that it began.
  bool is_at_rest(uint32_t rank) const {
    return !failures_.is_busy(rank) && !messages_.is_in_message(rank) &&
           board_.is_done_with_all(rank);
  }

 private:
  struct Header;
  struct Layout;

  // |memory|: |layout.end| bytes, which the object unmaps.
  ControlSegment(void* memory, const Layout& layout);

  Header* const header_;
  const uint64_t bytes_;
  const WaitPolicy wait_policy_;
  AbortRecord failures_;
  OperationBoard board_;
  PointToPointSlots messages_;
  ShrinkSlots shrink_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_CONTROL_SEGMENT_H_
