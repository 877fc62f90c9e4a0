// SPDX-License-Identifier: Apache-2.0
// Memory of other processes that lies in no shared object, read by cross-memory attach.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_ATTACH_H_
#define KEEL_COLLECTIVES_TRANSPORTS_ATTACH_H_

#include <cstdint>
#include <vector>

#include "collectives/bootstrap/identity.h"
#include "collectives/transports/control_segment.h"
#include "core/remembered_ranges.h"
#include "core/status.h"

namespace keel {

// |bytes| at |address| of the process |pid|: process_vm_readv(2), one copy by the kernel.
// KEEL_UNAVAILABLE where there is no such process, or none that lets itself be read;
// KEEL_RANK_FAILED where it has no such memory.
Status read_process(int64_t pid, uint64_t address, void* out, uint64_t bytes);

// Which ranks may be told an address instead of having a copy staged for them. Whether a process
// may read another is the kernel's to say (ptrace_scope, containers, users), so each rank tries,
// on the other processes' tokens. Nobody does before a rank has had to stage a buffer for want of
// it, which its post says: a sandbox may end a process for trying. All ranks have seen that post,
// and go on together: with the next operation they post where their tokens are, with the one
// after whether they read all others', and if all did, addresses are published from the third on;
// if not, never. KEEL_ATTACH=0 turns it off. For one thread.
class Attach {
 public:
  Attach() = default;  // never: all ranks are in one process
  Attach(const std::vector<Attendee>& attendees, uint32_t rank);

  // This rank has a buffer that others could read so.
  void want() { is_wanted_ = true; }
  // Some other rank had one in operation |sequence|, whose post says so.
  void wake(uint64_t sequence) {
    if (state_ != State::kAsleep) return;
    state_ = State::kAwake;
    woken_ = sequence;
  }
  // What this rank says, with the post of operation |sequence|; the posts of the operation
  // before, which are all there, are looked at for it.
  void tell(ControlSegment& segment, uint64_t sequence, Post* post) {
    if (state_ == State::kAwake || (is_wanted_ && state_ == State::kAsleep)) [[unlikely]] {
      tell_on(segment, sequence, post);
    }
  }
  // Whether all others can read this process.
  bool is_agreed() const { return state_ == State::kAgreed; }
  // Whether they can read its |bytes| >= 1 at |pointer|: not of device or secret memory, nor of a
  // process that has closed itself to others since. What the memory is the kernel is asked once,
  // as long as |registrations|, the state of those of the device that |pointer| is of, stays the
  // same: of 64 KiB that one rank reads it is a fifth of the time.
  bool lets_read(const void* pointer, uint64_t bytes, uint64_t registrations);

 private:
  enum class State : uint8_t { kNever, kAsleep, kAwake, kAgreed };

  void tell_on(ControlSegment& segment, uint64_t sequence, Post* post);
  // By the posts of |sequence|.
  bool can_read_all(ControlSegment& segment, uint64_t sequence) const;
  bool all_can(ControlSegment& segment, uint64_t sequence) const;

  State state_ = State::kNever;
  bool is_wanted_ = false;
  uint64_t woken_ = 0;
  RememberedRanges ordinary_;  // memory that others can read, by the state of registrations
  const std::vector<Attendee>* attendees_ = nullptr;
  uint32_t rank_ = 0;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_ATTACH_H_
