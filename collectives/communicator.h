// The ranks of one process that act together, and the thread that serves them.
#ifndef KEEL_COLLECTIVES_COMMUNICATOR_H_
#define KEEL_COLLECTIVES_COMMUNICATOR_H_

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "collectives/bridge/bridge.h"
#include "collectives/operation.h"
#include "core/deadline.h"
#include "core/device.h"
#include "core/gate.h"
#include "core/ref_counted.h"
#include "core/status.h"
#include "core/stream.h"

namespace keel {

struct CommunicatorOptions {
  int64_t timeout_ns = 0;
  BridgeOptions bridge;
};

// Rank calls arrive in any order from any threads; the n-th call of each rank belongs to
// the n-th operation. A call records where the rank's stream is and leaves a closed gate
// on it; when all ranks have called, a thread of the communicator's own, which parks
// otherwise, runs the operation and opens the gates. So no call blocks, and one thread
// may drive all ranks. It has a thread of its own, rather than the process's progress
// thread, because reducing a chunk takes a millisecond in which nobody else's events
// should have to wait. Thread-safe.
class Communicator final : public RefCounted {
 public:
  // Rank i is on devices[i].
  Communicator(std::vector<Ref<Device>> devices, const CommunicatorOptions& options);
  ~Communicator() override;

  uint32_t world() const { return static_cast<uint32_t>(devices_.size()); }
  const Ref<Device>& device(uint32_t rank) const { return devices_[rank]; }

  // Rank |rank|'s next call, on |stream| of its device. Checked against the rank's own
  // memory; whether it fits the other ranks' shows later, on the streams.
  Status enqueue(uint32_t rank, const Request& request, const Ref<Stream>& stream);

  // Everything in flight and everything later fails with |status|; the first one sticks.
  void abort(const Status& status);
  // Waits until all operations that every rank has called are done.
  Status finish(const Deadline& deadline);
  // KEEL_OK, or what it was aborted with.
  Status async_error() const;

  struct Stats {
    uint64_t operations = 0;
    ReachStats bytes;
  };
  Stats stats() const;
  // The reach of each rank and the sizes in use, as JSON.
  std::string explain() const;

 private:
  struct Arrival {
    Request request;
    Ref<EventRecord> ready;
    Ref<Gate> gate;  // empty until the rank has called
  };
  struct Operation {
    uint64_t sequence;
    Deadline deadline;  // counted from its first arrival
    uint32_t arrived = 0;
    std::vector<Arrival> arrivals;
    Status status;  // failed before all had come: late ranks get it at once
  };

  Operation& operation_for(uint64_t sequence);  // with |mutex_| held
  void serve();
  void run(Operation operation);
  void expire_locked(std::vector<Ref<Gate>>* out_gates, Status* out_status);
  static void open_gates(const std::vector<Ref<Gate>>& gates, const Status& status);
  std::string absent_ranks(const Operation& operation) const;

  const std::vector<Ref<Device>> devices_;
  const int64_t timeout_ns_;
  Bridge bridge_;  // the thread's alone

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::atomic<bool> cancelled_{false};  // what the thread waits for is given up
  bool running_ = false;
  Status failure_;
  std::vector<uint64_t> next_;        // each rank's next sequence number
  std::deque<Operation> operations_;  // in order; the front one is the oldest not yet run
  Stats stats_;
  std::thread thread_;
};

// What a keel_comm handle names: one rank.
struct CommunicatorRank final : public RefCounted {
  CommunicatorRank(Ref<Communicator> communicator_ref, uint32_t rank_number)
      : communicator(std::move(communicator_ref)), rank(rank_number) {}
  const Ref<Communicator> communicator;
  const uint32_t rank;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_COMMUNICATOR_H_
