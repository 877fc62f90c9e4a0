// Memory of other processes that lies in no shared object, read by cross-memory attach.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_ATTACH_H_
#define KEEL_COLLECTIVES_TRANSPORTS_ATTACH_H_

#include <cstdint>
#include <vector>

#include "collectives/bootstrap/identity.h"
#include "collectives/transports/control_segment.h"
#include "core/status.h"

namespace keel {

// |bytes| at |address| of the process |pid|: process_vm_readv(2), one copy by the kernel.
// KEEL_UNAVAILABLE where there is no such process, or none that lets itself be read;
// KEEL_RANK_FAILED where it has no such memory.
Status read_process(int64_t pid, uint64_t address, void* out, uint64_t bytes);
// Whether this process's |bytes| >= 1 at |pointer| can be read so: not device or secret memory, nor
// that of a process that has closed itself to others since. Two calls of the kernel.
bool lets_others_read(const void* pointer, uint64_t bytes);

// Which ranks may be told an address instead of having a copy staged for them. Whether a process
// may read another is the kernel's to say (ptrace_scope, containers, users), so each rank tries,
// once, on the other processes' tokens, whose addresses come with their posts, and says so in
// the posts after: who finds that all others can, publishes addresses from then on. What one
// could once it can later, so a post of old that says so is as good as a new one. KEEL_ATTACH=0
// turns it off. For one thread.
class Attach {
 public:
  Attach() = default;  // never: all ranks are in one process
  Attach(const std::vector<Attendee>& attendees, uint32_t rank);

  // What this rank says, with the post of operation |sequence|; the posts of the operation
  // before, which are all there, are looked at for it.
  void tell(ControlSegment& segment, uint64_t sequence, Post* post);
  // Whether all others can.
  bool is_agreed() const { return state_ == State::kAgreed; }

 private:
  enum class State : uint8_t { kNever, kUnknown, kTried, kAgreed };

  bool can_read_all(ControlSegment& segment, uint64_t sequence) const;
  // Whether |says|(post) of all other ranks' posts of |sequence|.
  template <typename Says>
  bool all_say(ControlSegment& segment, uint64_t sequence, const Says& says) const;

  State state_ = State::kNever;
  const std::vector<Attendee>* attendees_ = nullptr;
  uint32_t rank_ = 0;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_ATTACH_H_
