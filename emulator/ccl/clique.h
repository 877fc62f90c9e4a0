#ifndef KEEL_EMULATOR_CCL_CLIQUE_H_
#define KEEL_EMULATOR_CCL_CLIQUE_H_

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/bell.h"
#include "emulator/ccl/call.h"
#include "emulator/completion.h"
#include "emulator/device.h"
#include "emulator/status.h"

namespace keel::emulator::ccl {

// What ranks meet by. It means something in the process that made it alone.
using UniqueId = std::array<std::byte, 128>;

// One operation, as far as its ranks have come: a part a rank of a collective; a message has two,
// first its sender's. Guarded by the clique's mutex, but for what |met| and |read| order.
struct Operation {
  // One rank's part.
  struct Part {
    Call call;
    std::shared_ptr<Completion> met = std::make_shared<Completion>();   // all have arrived
    std::shared_ptr<Completion> read = std::make_shared<Completion>();  // all have read
    // For a rank that hangs: only an abort ends it.
    std::shared_ptr<Completion> hung = std::make_shared<Completion>();
    std::vector<std::byte> result;  // the rank's own, between reading and writing
  };
  explicit Operation(uint32_t ranks) : parts(ranks) {}

  std::vector<Part> parts;
  uint32_t arrived = 0;
  uint32_t have_read = 0;
  uint32_t taken = 0;  // ranks that know of it
};

// A rank's part of an operation.
struct Membership {
  std::shared_ptr<Operation> operation;
  uint32_t index = 0;

  Operation::Part& part() const { return operation->parts[index]; }
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

  // Whoever waits in meet() by |id| comes back with kUnavailable, and nobody can meet by it any
  // more; nothing where all have met.
  static void give_up(const UniqueId& id);

  uint32_t world() const { return static_cast<uint32_t>(devices_.size()); }
  Device& device(uint32_t rank) const { return *devices_[rank]; }

  // The rank's next operation, with its call noted.
  Membership next(uint32_t rank, const Call& call);
  // The rank's buffers are ready.
  void arrive(Operation& operation);
  // It has read what it needs of the others'.
  void finish_reading(Operation& operation);
  // Whether the calls fit together; all have arrived.
  Status check(const Operation& operation) const;

  // The rank gives up: what it waits for ends, the others hear of it when they ask.
  void abort(uint32_t rank);
  bool is_aborted(uint32_t rank) const;
  // An error of the rank, for whoever asks; the first one stays.
  void report(uint32_t rank, const Status& status);
  Status error(uint32_t rank) const;

 private:
  struct Member {
    bool aborted = false;
    Status error;
    std::vector<Membership> under_way;
    uint64_t called = 0;
    std::map<uint32_t, uint64_t> sent;      // messages to each rank
    std::map<uint32_t, uint64_t> received;  // from each
  };
  // Of a message, its ends and its number between these; of all ranks, the number alone.
  using Key = std::array<uint64_t, 3>;

  void start(uint32_t world);
  std::string missing() const;
  Key key_of_next(uint32_t rank, const Call& call);

  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::vector<std::shared_ptr<Device>> devices_;  // constant once all have come
  uint32_t come_ = 0;
  bool given_up_ = false;
  std::vector<Member> members_;
  std::map<Key, std::shared_ptr<Operation>> open_;  // that not all their ranks know of
};

}  // namespace keel::emulator::ccl

#endif  // KEEL_EMULATOR_CCL_CLIQUE_H_
