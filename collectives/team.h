// SPDX-License-Identifier: Apache-2.0
// The ranks of a communicator, as one process sees them.
#ifndef KEEL_COLLECTIVES_TEAM_H_
#define KEEL_COLLECTIVES_TEAM_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/bootstrap/identity.h"
#include "collectives/bootstrap/meeting.h"
#include "collectives/transports/control_segment.h"
#include "collectives/transports/peer_memory.h"
#include "core/epoch.h"
#include "core/status.h"

namespace keel {

class Device;

// Shared by the ranks of one process. Ends the communicator when the process of another
// rank dies. Thread-safe.
class Team : public std::enable_shared_from_this<Team> {
 public:
  // In Attendee::flags: the host cannot reach its memory, or only its own process does; the
  // communicator is urgent; and two bits of NativeOffer::Why.
  static constexpr uint32_t kNoAlias = 1;
  static constexpr uint32_t kUrgent = 2;
  static constexpr uint32_t kNativeShift = 2;
  static constexpr uint32_t kNative = 3 << kNativeShift;
  static constexpr uint32_t kOneProcess = 16;
  // Those that every communicator has anew, also one that is made of another.
  static constexpr uint32_t kOfACommunicator = kUrgent | kNative;

  // Of a meeting that has ended, at which this process was |rank|; the same object for all ranks of
  // this process. Where it cannot be, all others are told.
  static Status join(const Meeting& meeting, uint32_t rank, std::shared_ptr<Team>* out_team);
  // All of whose ranks are in this process: |attendees| in their order.
  static Status create_local(std::vector<Attendee> attendees, std::shared_ptr<Team>* out_team);
  // KEEL_INVALID_ARGUMENT, naming the ranks, unless all are kUrgent or none is.
  static Status check_priorities(const std::vector<Attendee>& attendees);
  // The factory for meetings.
  static Status make_segment(const std::vector<Attendee>& attendees, FileDescriptor* out_segment);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  uint32_t world() const { return static_cast<uint32_t>(attendees_.size()); }
  const Attendee& attendee(uint32_t rank) const { return attendees_[rank]; }
  const std::vector<Attendee>& attendees() const { return attendees_; }
  bool is_here(uint32_t rank) const { return here_[rank]; }
  // Whether some ranks do not reach what |rank|'s device allocates.
  bool is_staged(uint32_t rank) const {
    const uint32_t flags = attendees_[rank].flags;
    return (flags & kNoAlias) != 0 || (!is_local() && (flags & kOneProcess) != 0);
  }
  // That of a rank of this process, which says so itself; NULL before it has. Lives until shutdown.
  Device* device(uint32_t rank) const { return devices_[rank].load(std::memory_order_acquire); }
  void set_device(uint32_t rank, Device& device) {
    devices_[rank].store(&device, std::memory_order_release);
  }
  // The same in all its processes, and another for each communicator of the host.
  std::string id() const;
  // "rank 3 (vulkan:0)"; with the process where that is another.
  std::string name(uint32_t rank) const;
  // Some ranks of a communicator that work together for all: |numbers| are those by which the
  // user knows them, for name(). Before anybody works with the team; all say the same.
  void number_ranks(const std::vector<uint32_t>& numbers);
  // Those that |missing|(rank) says so of: "rank 1 (cpu:0), rank 4 (cpu:0)".
  template <typename Missing>
  std::string name_ranks(const Missing& missing) const;
  ControlSegment& segment() { return *segment_; }
  PeerMemory& memory() { return memory_; }
  // Whether all ranks are in this process.
  bool is_local() const { return is_local_; }
  // Whether other communicators' operations give way to those of this one.
  bool is_urgent() const { return (attendees_[0].flags & kUrgent) != 0; }

  // Lives while a rank works with the buffers of the others. Ranks of this process read them
  // where they are, so that a rank whose operation has failed may not give its buffers back
  // to the caller before they have let go: await_acts().
  class Act {
   public:
    explicit Act(Team& team);
    ~Act() { team_.acting_.fetch_sub(1, std::memory_order_seq_cst); }
    Act(const Act&) = delete;
    Act& operator=(const Act&) = delete;
    // False: the communicator has failed, and nothing may be touched.
    bool may() const { return may_; }

   private:
    Team& team_;
    bool may_;
  };
  // |rank| calls. Whether the last call was this thread's, too, for another rank: it drives
  // several. A guess where threads call at once.
  bool note_caller(uint32_t rank) {
    const void* const self = epoch::thread_pointer();
    const bool is_several = last_thread_.load(std::memory_order_relaxed) == self &&
                            last_rank_.load(std::memory_order_relaxed) != rank;
    last_thread_.store(self, std::memory_order_relaxed);
    last_rank_.store(rank, std::memory_order_relaxed);
    return is_several;
  }
  // The communicator has failed: returns once no rank of this process acts any more. Soon,
  // since all that they wait for fails.
  void await_acts() const;

  // Ends it for all ranks of all processes.
  void abort(const Status& status) { segment_->abort(status); }
  // |rank|, one of this process, calls no more: what it was done with the others may go on with.
  void leave(uint32_t rank) { segment_->leave(rank); }

 private:
  Team(std::vector<Attendee> attendees, std::unique_ptr<ControlSegment> segment,
       const ObjectId& object);
  static Status map(std::vector<Attendee> attendees, const FileDescriptor& file,
                    std::shared_ptr<Team>* out_team);
  Status watch_processes();
  // |process| has ended, or its program, with the ranks that have not left before.
  void end_process(const ProcessToken& process, ControlSegment::Absence how);

  const std::vector<Attendee> attendees_;
  const std::shared_ptr<ControlSegment> segment_;
  const ObjectId object_;  // of the segment
  PeerMemory memory_;
  std::vector<bool> here_;
  std::vector<std::atomic<Device*>> devices_;
  std::mutex numbers_mutex_;
  std::atomic<bool> is_numbered_{false};
  std::vector<uint32_t> numbers_;
  bool is_local_ = true;
  std::vector<uint64_t> watches_;
  std::vector<uint64_t> lifelines_;
  std::atomic<uint32_t> acting_{0};
  std::atomic<const void*> last_thread_{nullptr};
  std::atomic<uint32_t> last_rank_{0};
};

template <typename Missing>
std::string Team::name_ranks(const Missing& missing) const {
  constexpr uint32_t kMostNamed = 8;
  std::string text;
  uint32_t found = 0;
  for (uint32_t rank = 0; rank < world(); ++rank) {
    if (!missing(rank)) continue;
    if (++found <= kMostNamed) text += (text.empty() ? "" : ", ") + name(rank);
  }
  if (found > kMostNamed) text += fmt::format(" and {} more", found - kMostNamed);
  return text;
}

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TEAM_H_
