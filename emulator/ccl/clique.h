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

#include "emulator/bell.h"
#include "emulator/ccl/call.h"
#include "emulator/ccl/operation.h"
#include "emulator/device.h"
#include "emulator/status.h"

namespace keel::emulator::ccl {

// What ranks meet by, in the process that made it.
using UniqueId = std::array<std::byte, 128>;

// The name at which the process that made |id|, or this one, lets ranks of others in: open_hub().
std::string door_of(const UniqueId& id);
std::string own_door();

// Who hears for a rank of another process. Called with no lock held.
struct Guest {
  std::function<void(const Status&)> met;     // once: all have come, or nobody can any more
  std::function<void(const Status&)> failed;  // at most once: a rank's error
};

// The ranks that have met by one id, and the operations they are at: the n-th of each rank
// belongs together, and so does the n-th message that a rank sends to another with the n-th that
// that one receives from it. Thread-safe.
class Clique {
 public:
  static UniqueId make_id();
  // Rank |rank| of |world| on |device| has come, and waits for the others. kInvalidArgument for
  // an id of another process or one that was used, a rank or a device that is there already,
  // or another world; kTimedOut, naming who is missing, at |deadline|, after which nobody can
  // meet by the id any more (kUnavailable).
  static Status meet(const UniqueId& id, std::shared_ptr<Device> device, uint32_t rank,
                     uint32_t world, Time deadline, std::shared_ptr<Clique>* out_clique);
  // The same for a rank of another process, without waiting.
  static Status admit(const UniqueId& id, uint32_t rank, uint32_t world, Guest guest,
                      std::shared_ptr<Clique>* out_clique);
  static bool is_ours(const UniqueId& id);

  // Whoever waits in meet() by |id| comes back with kUnavailable, and nobody can meet by it any
  // more; nothing where all have met.
  static void give_up(const UniqueId& id);

  uint32_t world() const { return static_cast<uint32_t>(members_.size()); }
  // NULL: the rank is another process's.
  Device* device(uint32_t rank) const { return members_[rank].device.get(); }

  // The rank's next operation, with its call noted.
  Membership next(uint32_t rank, const Call& call);
  // The rank's buffers are ready.
  void arrive(Operation& operation);
  // It has read what it needs of the others'.
  void finish_reading(Operation& operation);
  // Whether the calls fit together; all have arrived.
  Status check(const Operation& operation) const;
  // Where |rank| goes by |operation|, a split whose calls fit together: to those of its color, in
  // the order of their keys, then of their ranks. Those of one color hear the same id.
  SplitPlace place_of(Operation& operation, uint32_t rank);

  // The rank gives up: what it waits for ends, the others hear of it when they ask.
  void abort(uint32_t rank);
  bool is_aborted(uint32_t rank) const;
  // An error of the rank, for whoever asks; the first one stays.
  void report(uint32_t rank, const Status& status);
  Status error(uint32_t rank) const;

 private:
  struct Member {
    bool has_come = false;           // constant, as the next two, once all have come
    std::shared_ptr<Device> device;  // NULL: another process's
    Guest guest;
    bool aborted = false;
    Status error;
    std::vector<Membership> under_way;
    uint64_t called = 0;
    std::map<uint32_t, uint64_t> sent;      // messages to each rank
    std::map<uint32_t, uint64_t> received;  // from each
  };
  // Of a message, its ends and its number between these; of all ranks, the number alone.
  using Key = std::array<uint64_t, 3>;

  static Status find(const UniqueId& id, std::shared_ptr<Clique>* out_clique);
  // Takes the rank's place, once nothing is against it.
  Status enter_locked(uint32_t rank, uint32_t world, std::shared_ptr<Device> device);
  std::vector<Guest> guests_locked() const;
  std::string missing() const;
  Key key_of_next(uint32_t rank, const Call& call);

  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::vector<Member> members_;  // none before the first has come
  uint32_t come_ = 0;
  bool given_up_ = false;
  std::map<Key, std::shared_ptr<Operation>> open_;  // that not all their ranks know of
};

}  // namespace keel::emulator::ccl

#endif  // KEEL_EMULATOR_CCL_CLIQUE_H_
