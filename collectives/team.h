// SPDX-License-Identifier: Apache-2.0
// The ranks of a communicator, from the view of one process.
#ifndef KEEL_COLLECTIVES_TEAM_H_
#define KEEL_COLLECTIVES_TEAM_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/bootstrap/identity.h"
#include "collectives/bootstrap/rendezvous.h"
#include "collectives/transports/control_segment.h"
#include "collectives/transports/peer_memory.h"
#include "core/epoch.h"
#include "core/status.h"

namespace keel {

class Device;

// Shared by the ranks of one process. Ends the communicator when the process of a remote rank dies.
// Thread-safe.
class Team : public std::enable_shared_from_this<Team> {
 public:
  // Bits of PeerInfo::flags. kNoAlias: the host cannot reach the device's memory; kOneProcess: only
  // the rank's process can; kUrgent: the communicator is urgent; kNative: two bits of
  // NativeOffer::Why.
  static constexpr uint32_t kNoAlias = 1;
  static constexpr uint32_t kUrgent = 2;
  static constexpr uint32_t kNativeShift = 2;
  static constexpr uint32_t kNative = 3 << kNativeShift;
  static constexpr uint32_t kOneProcess = 16;
  // Flags set anew for every communicator, also after a split.
  static constexpr uint32_t kOfACommunicator = kUrgent | kNative;

  // Joins the team of |rendezvous|, a completed rendezvous with this process as |rank|; all ranks
  // of this process share the object. If the segment cannot be mapped or a process cannot be
  // watched, aborts the segment, and all ranks fail.
  static Status join(const Rendezvous& rendezvous, uint32_t rank, std::shared_ptr<Team>* out_team);
  // Creates a team with all ranks in this process; |peer_infos| in rank order.
  static Status create_local(std::vector<PeerInfo> peer_infos, std::shared_ptr<Team>* out_team);
  // Returns KEEL_INVALID_ARGUMENT, naming the ranks, unless all are kUrgent or none is.
  static Status check_priorities(const std::vector<PeerInfo>& peer_infos);
  // Segment factory for the rendezvous.
  static Status make_segment(const std::vector<PeerInfo>& peer_infos, FileDescriptor* out_segment);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  uint32_t world() const { return static_cast<uint32_t>(peer_infos_.size()); }
  const PeerInfo& peer_info(uint32_t rank) const { return peer_infos_[rank]; }
  const std::vector<PeerInfo>& peer_infos() const { return peer_infos_; }
  bool is_here(uint32_t rank) const { return here_[rank]; }
  // Whether memory allocated by |rank|'s device is unreachable for some ranks.
  bool is_staged(uint32_t rank) const {
    const uint32_t flags = peer_infos_[rank].flags;
    return (flags & kNoAlias) != 0 || (!is_local() && (flags & kOneProcess) != 0);
  }
  // Device of a local rank, set by the rank; NULL before. Lives until shutdown.
  Device* device(uint32_t rank) const { return devices_[rank].load(std::memory_order_acquire); }
  void set_device(uint32_t rank, Device& device) {
    devices_[rank].store(&device, std::memory_order_release);
  }
  // Equal in all processes of the communicator, and unique among the communicators of the host.
  std::string id() const;
  // "rank 3 (vulkan:0)"; with the process id if the rank is in another process.
  std::string name(uint32_t rank) const;
  // For a team working on behalf of a larger communicator: sets the |numbers| of the ranks in the
  // user's communicator, for name(). Call before the team is used; all ranks pass the same numbers.
  // |host|: name of this host, which name() then adds: ranks of other hosts read the texts too.
  void number_ranks(const std::vector<uint32_t>& numbers, const std::string& host = {});
  // Returns the number of |rank| in the user's communicator.
  uint32_t number(uint32_t rank) const;
  // Lists the ranks for which |missing|(rank) is true: "rank 1 (cpu:0), rank 4 (cpu:0)".
  template <typename Missing>
  std::string name_ranks(const Missing& missing) const;
  ControlSegment& segment() { return *segment_; }
  PeerMemory& memory() { return memory_; }
  // Whether the process of |rank| has ended or called exec, also after the communicator failed.
  bool has_ended(uint32_t rank) const { return ended_[rank].load(std::memory_order_acquire); }
  // Whether all ranks are in this process.
  bool is_local() const { return is_local_; }
  // Whether operations of other communicators yield to this communicator's.
  bool is_urgent() const { return (peer_infos_[0].flags & kUrgent) != 0; }

  // Scope for the use of remote buffers by a rank. Ranks of this process read the buffers in place,
  // so a rank with a failed operation must not return its buffers to the caller before all scopes
  // have ended: await_acts().
  class Act {
   public:
    explicit Act(Team& team);
    ~Act() { team_.acting_.fetch_sub(1, std::memory_order_seq_cst); }
    Act(const Act&) = delete;
    Act& operator=(const Act&) = delete;
    // False: the communicator has failed, and no buffer may be touched.
    bool may() const { return may_; }

   private:
    Team& team_;
    bool may_;
  };
  // Records a call for |rank|. Returns true if the last call came from the same thread for a
  // different rank: the thread drives several ranks. A guess where threads call concurrently.
  bool note_caller(uint32_t rank) {
    const void* const self = epoch::thread_pointer();
    const bool is_several = last_thread_.load(std::memory_order_relaxed) == self &&
                            last_rank_.load(std::memory_order_relaxed) != rank;
    last_thread_.store(self, std::memory_order_relaxed);
    last_rank_.store(rank, std::memory_order_relaxed);
    return is_several;
  }
  // Requires a failed communicator. Blocks until no rank of this process is in an Act; soon, since
  // all waits of the ranks fail.
  void await_acts() const;

  // Ends the communicator for all ranks of all processes.
  void abort(const Status& status) { segment_->failures().abort(status); }
  // Marks the local rank |rank| as making no more calls. Its peers may go on with operations
  // completed by |rank|.
  void leave(uint32_t rank) { segment_->failures().leave(rank); }

 private:
  Team(std::vector<PeerInfo> peer_infos, std::unique_ptr<ControlSegment> segment,
       const ObjectId& object);
  static Status map(std::vector<PeerInfo> peer_infos, const FileDescriptor& file,
                    std::shared_ptr<Team>* out_team);
  Status watch_processes();
  // Handles the end of |process|, or of its program, for the ranks still in the team.
  void end_process(const ProcessToken& process, AbortRecord::Absence how);

  const std::vector<PeerInfo> peer_infos_;
  const std::shared_ptr<ControlSegment> segment_;
  const ObjectId object_;  // of the segment
  PeerMemory memory_;
  std::vector<bool> here_;
  std::vector<std::atomic<Device*>> devices_;
  std::vector<std::atomic<bool>> ended_;
  std::mutex numbers_mutex_;
  std::atomic<bool> is_numbered_{false};
  std::vector<uint32_t> numbers_;
  std::string host_;
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
