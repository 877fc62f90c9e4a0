// SPDX-License-Identifier: Apache-2.0
// Runs the operations of one rank of a communicator that spans hosts.
#ifndef KEEL_COLLECTIVES_HOSTS_HOST_RUNNER_H_
#define KEEL_COLLECTIVES_HOSTS_HOST_RUNNER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/flight/recorder.h"
#include "collectives/hosts/host_all_to_all.h"
#include "collectives/hosts/host_exchange.h"
#include "collectives/hosts/host_executor.h"
#include "collectives/hosts/host_group.h"
#include "collectives/hosts/host_lanes.h"
#include "collectives/hosts/host_messages.h"
#include "collectives/hosts/poll_budget.h"
#include "collectives/operation.h"
#include "collectives/runner.h"
#include "core/json_writer.h"

namespace keel {

// Takes the place of Runner. A failure of an operation ends the communicator on all hosts, and with
// it the job: no rank knows how far the others have come. For one thread, except where noted.
class HostRunner {
 public:
  // |inner|: runs operations among the ranks of the host, whose team |context| belongs to.
  HostRunner(RankContext& context, Runner& inner, const Selection& selection,
             std::unique_ptr<HostGroup> group);

  HostGroup& group() { return *group_; }
  const HostGroup& group() const { return *group_; }

  // The algorithm between hosts; the same on all ranks. Thread-safe.
  Algorithm choose(const Request& request) const;

  // Blocks until |request| is complete or has failed. |ready|: KEEL_OK, or why the rank cannot take
  // part, which ends the communicator.
  Status run(const Request& request, const Status& ready, FlightRecorder::Entry* entry,
             WaitContext& wait_context);
  // Gathers the choices of all ranks for a split. |*out_number| counts these calls, and is the same
  // on all ranks.
  Status exchange(const SplitChoice& own, WaitContext& wait_context,
                  std::vector<SplitChoice>* out_all, uint64_t* out_number);

  // Counters; thread-safe.
  struct Stats {
    uint64_t sent = 0;
    uint64_t received = 0;
    uint64_t messages_sent = 0;
    uint64_t messages_received = 0;
    StagingPipeline::Traffic staged;
  };
  Stats stats() const;
  // Writes a JSON object: hosts, lanes, wires, bytes, and what |write_inside|() writes of the
  // rank's own host. Thread-safe.
  void explain(const std::function<void()>& write_inside, JsonWriter& json) const;

 private:
  // Ranks among which messages move |request|'s data: all, or one of each host.
  uint32_t ranks_between(const Request& request) const;
  bool may_run(Algorithm algorithm, const Request& request) const;
  // As if all ranks sent |bytes|.
  Algorithm choose(const Request& request, uint64_t bytes) const;
  // Writes members of the open JSON object for `keel perf --tune`, as explain_selection().
  void explain_choice(JsonWriter& json) const;
  Status run_collective(const Request& request, WireWait& wait);
  Status run_messages(const Request& request, FlightRecorder::Entry* entry, WireWait& wait);
  // Ends the communicator with the cause of |status| and waits until no one touches the caller's
  // memory. Returns the failure, which names the operation on every rank. |number|: of the call
  // among those of its kind. |leg|: see leg(), or empty.
  Status fail(const Request& request, uint64_t number, const std::string& leg,
              const Status& status);
  Status find_cause(const Status& status);
  std::string name_mismatch(const Request& request) const;
  // The ranks of other hosts that the operation still waited for when it failed, ascending.
  std::vector<uint32_t> awaited() const;
  std::string name_awaited() const;
  // Where the operation failed: "over tcp with ranks 2, 3" or "inside host 'b'".
  std::string leg(const WireWait& wait) const;
  Status run_flat(const Request& request, WireWait& wait);
  // Requires the lock.
  void count(const WireSet::Traffic& traffic);
  void tell(const Request& request, const HostExecutor& executor, bool by_lanes, double seconds);

  RankContext& context_;
  Runner& inner_;
  const std::unique_ptr<HostGroup> group_;
  HostExecutor flat_;
  HostLanes lanes_;
  HostMessages messages_;
  PollBudget polls_;
  HostAllToAll all_to_all_;
  const std::vector<Rule> rules_;  // the agreed ones that fit the communicator
  uint64_t operations_ = 0;
  uint64_t exchanges_ = 0;
  uint64_t next_shown_ = OperationBoard::kShownCollective;  // of a collective or exchange()
  bool by_lanes_ = false;                                   // the running operation

  struct Last {
    keel_collective collective = KEEL_BARRIER;
    uint64_t bytes = 0;
    std::string algorithm;
    bool by_lanes = false;
    bool is_staged = false;
    uint64_t rounds = 0;
    uint64_t round_bytes = 0;
    double seconds = 0;
  };
  mutable std::mutex mutex_;
  Last last_;
  bool has_last_ = false;
  Stats stats_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HOSTS_HOST_RUNNER_H_
