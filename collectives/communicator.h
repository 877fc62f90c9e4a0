// SPDX-License-Identifier: Apache-2.0
// One rank of a communicator: its queue of operations and its worker thread.
#ifndef KEEL_COLLECTIVES_COMMUNICATOR_H_
#define KEEL_COLLECTIVES_COMMUNICATOR_H_

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/adaptive_spin.h"
#include "collectives/call_cache.h"
#include "collectives/flight/recorder.h"
#include "collectives/hierarchical/hierarchical.h"
#include "collectives/hosts/host_runner.h"
#include "collectives/hosts/host_shrink.h"
#include "collectives/operation.h"
#include "collectives/operation_queue.h"
#include "collectives/premul_factors.h"
#include "collectives/rank_context.h"
#include "collectives/runner.h"
#include "collectives/selection/table_source.h"
#include "collectives/team.h"
#include "core/copy.h"
#include "core/deadline.h"
#include "core/device.h"
#include "core/gate.h"
#include "core/ref_counted.h"
#include "core/status.h"
#include "core/stream.h"

namespace keel {

struct CommunicatorOptions {
  int64_t timeout_ns = 0;
  // Bytes of a staging chunk. 2 MiB is long enough for the 30 to 90 us of a submission to a chip's
  // queue to be under a tenth of the copy, and short enough for a chunk to stay in the second-level
  // cache between copy and reduction.
  uint64_t chunk_bytes = 2 << 20;
  bool forbid_alias = false;
  bool forbid_native = false;
  bool urgent = false;
  TableSource table;  // rank 0's table applies to all ranks

  // Returns the PeerInfo flags, of Team::kOfACommunicator, announced by a rank on |device|.
  uint32_t flags(const Device& device) const;
  // Properties that rank 0 decides for a communicator that spans hosts.
  HostAgreement agreement() const;
};

// Returns KEEL_OK if |bytes| is a valid chunk size: a multiple of 64 from 4096 to 2^30.
Status check_chunk_bytes(uint64_t bytes);

// The object behind a keel_comm handle. Thread-safe.
//
// The n-th call of a rank matches the n-th call of all ranks, and every call counts: a refused call
// is published as failed in its turn, so all ranks stay at the same operation even if a rank errs.
// A call records the position of the rank's stream and leaves a closed gate there (a fence
// signalled by the host). The rank's worker thread, parked while idle, runs the operations in order
// and opens the gate. Hence a call waits only briefly for ranks without the matching call, and one
// thread may drive several ranks. Small and short operations run within the call. Operations on a
// stream with nothing in between share a gate: the second operation needs no proof from the device
// of the end of the first.
class Communicator final : public GateOwner {
 public:
  // Requires a complete |team| with its chunk size set, and the same |selection| on all its ranks.
  // |hosts|: of a communicator that spans hosts, whose ranks on this host are |team|, else NULL.
  Communicator(std::shared_ptr<Team> team, uint32_t rank, Ref<Device> device,
               const CommunicatorOptions& options, const Selection& selection,
               std::unique_ptr<HostGroup> hosts = nullptr);
  ~Communicator() override;

  // Creates rank |rank| of the new |team| and blocks until all ranks have come this far. A failure
  // aborts the team and names the rank to all waiting ranks.
  static Status enter(std::shared_ptr<Team> team, uint32_t rank, const Ref<Device>& device,
                      const CommunicatorOptions& options, const Deadline& deadline,
                      Ref<Communicator>* out_communicator,
                      std::unique_ptr<NativeGroup> inherited = nullptr,
                      std::unique_ptr<HostGroup> hosts = nullptr);
  // Same, for this process's rank of |hosts|.
  static Status enter_hosts(std::unique_ptr<HostGroup> hosts, const Ref<Device>& device,
                            const CommunicatorOptions& options, const Deadline& deadline,
                            Ref<Communicator>* out_communicator);

  // Forms islands (ranks with a common native library) on the worker thread, where the team may
  // have islands; await() blocks until the end of the task. Both precede the first operation. Two
  // steps, so one thread can do this for several ranks.
  struct Task {
    bool is_begun = false;
    bool is_done = false;
    Status result;
  };
  Status begin_islands(Task* out_task, std::unique_ptr<NativeGroup> inherited = nullptr);
  Status await(Task& task);

  // Rank and size of the whole communicator; team() and local_rank() are of the ranks on this host.
  uint32_t rank() const { return hosts_ ? hosts_->group().rank() : context_.rank(); }
  uint32_t world() const { return hosts_ ? hosts_->group().world() : context_.world(); }
  uint32_t local_rank() const { return context_.rank(); }
  // Equal in all processes of the communicator, and unique among its communicators.
  std::string id() const { return hosts_ ? hosts_->group().id() : context_.team().id(); }
  const Ref<Device>& device() const { return device_; }
  Team& team() { return context_.team(); }

  // Enqueues the rank's next call on |stream|, a stream of the rank's device. Checks the call
  // against the rank's own memory only; a mismatch with the calls of the peers fails the streams
  // later.
  Status enqueue(Request request, const Ref<Stream>& stream);
  // Fast path of enqueue() for a repeated small call on an idle stream. The calling thread's lookup
  // cache, |cache|, must cover the buffers. Returns false, without any effect, if a condition
  // fails. Waits for the peers within the spin budget of AdaptiveSpin.
  bool try_fast_path(const CallArguments& arguments, const void* send, void* receive,
                     Stream& stream, const BlockLookupCache& cache, Status* out_status);
  // Returns the status of the checks of enqueue(), as far as possible now.
  Status check(const Request& request, const Ref<Stream>& stream) const;
  // Refuses the rank's next call and returns |why|; the peers receive the refusal in the call's
  // turn. |request| holds as much as the caller has given and need not be valid. Messages are
  // refused towards existing ranks only. refuse_split() does the same for a split.
  Status refuse(Request request, const Status& why);
  Status refuse_split(const Status& why);

  // Runs, on a thread waiting for a stream, the operations behind the stream's gate. Spares two
  // thread switches, more than the cost of a small operation.
  void help(const Gate& gate, const Deadline& deadline) override;

  void set_timeout(int64_t timeout_ns) { timeout_ns_.store(timeout_ns, std::memory_order_relaxed); }
  // Sets the deadline of the rank's next call alone.
  void set_next_timeout(int64_t timeout_ns) {
    std::lock_guard lock(mutex_);
    next_timeout_ = {called_, timeout_ns};
  }
  int64_t longest_ns() const override;
  // Fails all operations, in flight and later, with |status| on all ranks; the first abort sticks.
  void abort(const Status& status) {
    hosts_ ? hosts_->group().abort(status) : team().abort(status);
  }
  // Implements keel_comm_split: |*out_part| is empty for KEEL_NO_COLOR. Waits for all ranks.
  Status split(int32_t color, int32_t key, const CommunicatorOptions& options,
               Ref<Communicator>* out_part);
  // Implements keel_comm_shrink: ends this communicator, and makes one of the ranks that are left.
  struct ShrinkCall {
    Deadline deadline;
    int64_t absent_ns = 0;  // as in keel_comm_shrink
    // Deadline of a step in which this rank waits for ranks that have called.
    Deadline step() const;
  };
  Status shrink(const ShrinkCall& call, const CommunicatorOptions& options,
                Ref<Communicator>* out_left);
  // Origin of a communicator that shrink() made. Constant once the handle exists.
  struct Lineage {
    uint64_t epoch = 1;
    std::vector<uint32_t> old_ranks;  // empty: not made by shrink()
  };
  const Lineage& lineage() const { return lineage_; }
  // add_factor() implements keel_premul_sum_create, remove_factor() keel_premul_sum_destroy;
  // resolve_reduction() replaces the resulting number in |*request| by KEEL_PREMUL_SUM and the
  // factor.
  Status add_factor(double factor, keel_reduction* out_reduction);
  Status remove_factor(keel_reduction reduction);
  Status resolve_reduction(Request* request) const;

  // KEEL_FAILED_PRECONDITION, naming operation and rank, if an operation that is not complete uses
  // host memory in [begin, end) that is registered with |device|. Operations that another thread
  // runs within its call are not seen.
  Status check_unused(const Device& device, uintptr_t begin, uintptr_t end) const;

  // Blocks until all enqueued operations are complete.
  Status finish(const Deadline& deadline);
  // Runs finish(), announces the end of the rank's calls to the peers, and joins the worker thread.
  Status close(const Deadline& deadline);
  // Same as close(), for keel_shutdown: aborts first if the outcome of an operation is still open.
  void shut_down(const Deadline& deadline);
  // Returns KEEL_OK, the status of the abort, or the failure of a dead rank.
  Status async_error();
  // Implements keel_comm_rank_status.
  Status rank_status(uint32_t rank);

  struct Stats {
    uint64_t operations = 0;
    StagingPipeline::Traffic staged;
    uint64_t in_place = 0;
    uint64_t preempted = 0;
    uint64_t native = 0;
  };
  Stats stats() const;
  // Returns JSON: see explain.h.
  std::string explain();

 private:
  HierarchicalPlan plan_of_islands();
  // Queues |work| for the worker thread, behind all earlier calls. The caller keeps |*out_task|
  // until await() has returned.
  Status begin_task(std::function<Status(RankContext&, WaitContext&)> work, Task* out_task);
  // Body of enter(), without the report of a failure to the peers.
  static Status enter_team(const std::shared_ptr<Team>& team, uint32_t rank,
                           const Ref<Device>& device, const CommunicatorOptions& options,
                           const Deadline& deadline, std::unique_ptr<NativeGroup> inherited,
                           std::unique_ptr<HostGroup>* hosts, Ref<Communicator>* out_communicator);
  Status split_inside(int32_t color, int32_t key, const CommunicatorOptions& options,
                      Ref<Communicator>* out_part);
  Status split_hosts(int32_t color, int32_t key, const CommunicatorOptions& options,
                     Ref<Communicator>* out_part);
  // Blocks until no operation runs, on any thread, after the abort.
  Status end_operations(const Deadline& deadline);
  Status shrink_inside(const ShrinkCall& call, const CommunicatorOptions& options,
                       Ref<Communicator>* out_left);
  Status shrink_hosts(const ShrinkCall& call, const CommunicatorOptions& options,
                      Ref<Communicator>* out_left);
  // Enters the communicator of the job that |host_shrink_| has joined, and waits until the
  // communicator is final on all ranks. After a failure the job has failed on all ranks.
  Status enter_final(const ShrinkCall& call, const CommunicatorOptions& options,
                     Ref<Communicator>* out_left);
  // The first part: enters the communicator of |job|.
  Status enter_met(const std::shared_ptr<HostJob>& job, const CommunicatorOptions& options,
                   const Deadline& deadline, Ref<Communicator>* out_made);
  // Leaves a closed gate, |hold_|, on |stream| unless the stream already ends with |hold_|. After
  // success the caller must not fail, or the gate would stay closed. |*out_ready|: as in
  // Stream::hold.
  Status hold_locked(keel_collective collective, const Ref<Stream>& stream,
                     Ref<EventRecord>* out_ready);
  // Starts a flight recorder entry for the next call.
  FlightRecorder::Entry* record(const Request& request);
  // Aborts the communicator with |why| and the rank's name; works without free memory too.
  void give_up(const Status& why);
  // The same for an operation whose call has published its descriptor and returns |why|.
  void give_up_published(const Status& why);
  // Requires a failed communicator. Waits until neither copies of this rank nor peers in this
  // process use the memory of the operation, which becomes the caller's again.
  void await_end_of_use();
  // Requires a counted call. Queues the refusal for the worker thread to publish. |entry|: NULL if
  // the call is not recorded yet.
  void refuse_locked(Request request, FlightRecorder::Entry* entry, const Status& why);
  // Starts the worker thread and reserves room for an operation; push_locked() then cannot fail.
  void make_ready_locked();
  void push_locked(Operation operation);
  // Wakes the worker thread if there is work.
  void call_thread();
  // |was_taken|: the operation was not refused.
  void stop_running(bool was_taken);
  // Requires |mutex_|. Returns the deadline of the call that record() was called for last.
  int64_t timeout_of_call() const {
    if (next_timeout_.timeout_ns >= 0 && next_timeout_.call + 1 == called_) [[unlikely]] {
      return next_timeout_.timeout_ns;
    }
    return timeout_ns_.load(std::memory_order_relaxed);
  }
  // Requires |mutex_|. Returns whether |request| may run within the call: the operation is short,
  // and all earlier calls are complete, also on the stream.
  bool may_run_now(const Request& request, Stream& stream) const;
  bool is_short(const Request& request) const;
  // Parts of enqueue(). enqueue_locked() requires a counted call and |mutex_|; begin_now() requires
  // may_run_now(), and uses run_now() or run_now_unlocked().
  Status enqueue_checked(Request& request, const Ref<Stream>& stream);
  // Whether the call of a rank alone is one copy on its stream, with no host between: 16 MiB on an
  // H100 took 1.6 ms through the host.
  bool is_copy(const Request& request, Endpoint* out_to, Endpoint* out_from) const;
  Status copy_alone(const Request& request, Stream& stream, const Endpoint& to,
                    const Endpoint& from);
  Status enqueue_locked(std::unique_lock<std::mutex>& lock, Request request,
                        const Ref<Stream>& stream);
  // Result of the call's own part in the operation; the state is CallState.
  struct Begun {
    FlightRecorder::Entry* entry = nullptr;  // NULL: not recorded yet
    std::optional<uint64_t> published;       // sequence number, if published
  };
  CallState begin_now(std::unique_lock<std::mutex>& lock, const Request& request,
                      const Ref<Stream>& stream, Begun* out_begun, Sides* out_sides,
                      Status* out_status);
  // Runs an eager operation if the peers call soon. Keeps |mutex_| throughout: to release and
  // retake the mutex would cost a tenth of a small operation.
  CallState run_now(const Request& request, const EagerBuffers& buffers, Begun* out_begun);
  // Same as run_now() for a recorded operation that is not eager; releases the lock once all ranks
  // have published the operation. From there on the calling thread waits for the peers, already at
  // work too, as the worker thread would. |*out_status|: whether a failure could be put on
  // |stream|.
  CallState run_now_unlocked(std::unique_lock<std::mutex>& lock, const Request& request,
                             const Ref<Stream>& stream, Begun* begun, Sides* out_sides,
                             Status* out_status);
  // Fails |stream| in the way of an operation ending with |status|. May release |lock|.
  Status fail(std::unique_lock<std::mutex>& lock, keel_collective collective,
              const Ref<Stream>& stream, const Status& status);
  // Leaves the operation to the worker thread, or to a thread waiting for the stream. |sides|: the
  // buffer locations published by the call. If nothing was published, the operation keeps the
  // allocations around its buffers; a call that runs within itself never pays for that.
  Status leave_locked(Request request, const Begun& begun, const Sides& sides,
                      const Ref<Stream>& stream);
  // Runs the oldest operation; releases |lock| meanwhile.
  void run_next(std::unique_lock<std::mutex>& lock, Operation* scratch);
  void watch(std::unique_lock<std::mutex>& lock);
  void serve();
  Status run(Operation& operation);
  // Returns the result of |run|(). If memory runs out in |run|, aborts the team and returns
  // KEEL_OUT_OF_MEMORY.
  template <typename Run>
  Status guarded(const Run& run) {
    try {
      return run();
    } catch (const std::bad_alloc&) {
      // The progress of the operation is unknown.
      abort(Status::no_memory());
      await_end_of_use();
      return Status::no_memory();
    }
  }
  void complete(const Operation& operation, const Status& status);

  const Ref<Device> device_;
  const Selection selection_;                // rank 0's, on all ranks
  const std::string table_name_;             // of this rank's own table
  RankContext context_;                      // for the thread that runs operations
  Runner runner_;                            // for the thread that runs operations
  const std::unique_ptr<HostRunner> hosts_;  // runs the operations if the communicator spans hosts
  const bool forbid_alias_;
  Lineage lineage_;
  std::atomic<bool> is_shrinking_{false};
  // From the first shrink() of a communicator that spans hosts on; from the start where shrink()
  // made the communicator between hosts, and all its ranks are on one.
  std::unique_ptr<HostShrink> host_shrink_;
  friend class ShrinkRound;
  std::unique_ptr<Hierarchical> islands_;  // formed before the first call; may be NULL
  std::shared_ptr<const HierarchicalPlan> hierarchical_plan_;  // result of the search for islands
  const std::unique_ptr<FlightRecorder> recorder_;             // begin() requires |mutex_|
  std::atomic<int64_t> timeout_ns_;
  AdaptiveSpin spin_;  // spin budget of the thread that runs an operation

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // for the worker thread
  std::condition_variable idle_;     // for finish() and await()
  OperationQueue queue_;
  CallCache known_;
  Ref<HeldStream> hold_;  // of the last operation
  PremulFactors factors_;
  bool stopping_ = false;
  bool running_ = false;  // an operation runs, on any thread
  // The one that runs, from the queue and neither refused nor a task; NULL once it is complete.
  const Operation* running_operation_ = nullptr;
  // Operations accepted and not refused. |taken_|: not complete with all follow-up work;
  // |undecided_|: of unknown outcome.
  uint64_t taken_ = 0;
  uint64_t undecided_ = 0;
  // While user threads help, the worker thread leaves the next operation to the helpers and is not
  // woken. The worker polls every tick (1 ms), so an operation without a helper starts a tick or
  // two late.
  enum class Attention { kParked, kWatching, kRunning };
  Attention attention_ = Attention::kRunning;
  uint64_t helped_ = 0;  // operations run by user threads
  bool expects_help_ = false;
  Operation helped_operation_;  // scratch of the helping thread
  uint64_t called_ = 0;         // calls so far, for the recorder
  struct {
    uint64_t call = 0;  // the value of |called_| before the call
    int64_t timeout_ns = -1;
  } next_timeout_;                      // of keel_comm_timeout_next
  uint64_t calls_ = 0;                  // calls without messages: must be equal on all ranks
  uint64_t operations_ = 0;             // complete
  std::atomic<bool> cancelled_{false};  // gives up the waits of the worker thread
  std::thread thread_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_COMMUNICATOR_H_
