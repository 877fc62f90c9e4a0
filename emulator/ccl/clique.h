// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_CCL_CLIQUE_H_
#define KEEL_EMULATOR_CCL_CLIQUE_H_

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/ccl/call.h"
#include "emulator/ccl/operation.h"
#include "emulator/device.h"
#include "emulator/notifier.h"
#include "emulator/status.h"

namespace keel::emulator::ccl {

// The rendezvous id of a communicator's ranks, made by a single process.
using UniqueId = std::array<std::byte, 128>;

// Return the address at which the creator of |id|, or this process, admits remote ranks: see
// open_bootstrap_root().
std::string address_of_root(const UniqueId& id);
std::string own_root_address();

// The callbacks of a remote rank; called with no lock held.
struct RemotePeer {
  std::function<void(const Status&)> met;  // once: all ranks joined, or no rank can join any more
  std::function<void(const Status&)> failed;  // at most once: a rank's error
};

// The ranks joined by one id, and the operations in progress. The n-th collective calls of all
// ranks form one operation; so do the n-th message sent by a rank to a peer and the n-th message
// received by the peer from the rank. Thread-safe.
class Clique {
 public:
  static UniqueId make_id();
  // Joins as rank |rank| of |world| on |device|, and waits for all ranks. Returns kInvalidArgument
  // for an id of another process or a used id, a rank or a device that has already joined, or
  // another world size; kTimedOut, naming the missing ranks, at |deadline|. After a timeout no rank
  // can join by the id any more (kUnavailable).
  static Status meet(const UniqueId& id, std::shared_ptr<Device> device, uint32_t rank,
                     uint32_t world, Time deadline, std::shared_ptr<Clique>* out_clique);
  // Joins on behalf of a rank of another process, without waiting.
  static Status admit(const UniqueId& id, uint32_t rank, uint32_t world, RemotePeer remote_peer,
                      std::shared_ptr<Clique>* out_clique);
  static bool is_ours(const UniqueId& id);

  // Makes every meet() waiting by |id| return kUnavailable and refuses later ranks; does nothing if
  // all ranks have joined.
  static void give_up(const UniqueId& id);

  uint32_t world() const { return static_cast<uint32_t>(members_.size()); }
  // NULL: a rank of another process.
  Device* device(uint32_t rank) const { return members_[rank].device.get(); }

  // Returns the rank's next operation, with |call| recorded.
  Membership next(uint32_t rank, const Call& call);
  // Marks a rank's buffers as ready.
  void arrive(Operation& operation);
  // Marks a rank as done reading its peers' buffers.
  void finish_reading(Operation& operation);
  // Returns whether the calls match, after all ranks have arrived.
  Status check(const Operation& operation) const;
  // Returns |rank|'s result of |operation|, a split with matching calls: the ranks of its color,
  // ordered by key and then by rank, form a communicator. All ranks of one color get the same id.
  SplitResult place_of(Operation& operation, uint32_t rank);

  // Aborts the rank: ends its waits, and sets the error of its peers.
  void abort(uint32_t rank);
  bool is_aborted(uint32_t rank) const;
  // Records an error of the rank; the first error is kept.
  void report(uint32_t rank, const Status& status);
  Status error(uint32_t rank) const;

 private:
  struct Member {
    bool has_come = false;           // constant with the next two once all have joined
    std::shared_ptr<Device> device;  // NULL: another process's rank
    RemotePeer remote_peer;
    bool aborted = false;
    Status error;
    std::vector<Membership> under_way;
    uint64_t called = 0;
    std::map<uint32_t, uint64_t> sent;      // messages to each rank
    std::map<uint32_t, uint64_t> received;  // messages from each rank
  };
  // A message's sender, receiver and number between the two; a collective's number alone.
  using Key = std::array<uint64_t, 3>;

  static Status find(const UniqueId& id, std::shared_ptr<Clique>* out_clique);
  // Joins the rank after checking the arguments.
  Status enter_locked(uint32_t rank, uint32_t world, std::shared_ptr<Device> device);
  std::vector<RemotePeer> remote_peers_locked() const;
  std::string missing() const;
  Key key_of_next(uint32_t rank, const Call& call);

  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::vector<Member> members_;  // empty until the first rank joins
  uint32_t come_ = 0;
  bool given_up_ = false;
  std::map<Key, std::shared_ptr<Operation>> open_;  // not yet called by all their ranks
};

}  // namespace keel::emulator::ccl

#endif  // KEEL_EMULATOR_CCL_CLIQUE_H_
