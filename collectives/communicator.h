// SPDX-License-Identifier: Apache-2.0
// One rank of a communicator: what it has called, and the thread that runs it.
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

#include "collectives/flight/recorder.h"
#include "collectives/impatience.h"
#include "collectives/islands/islands.h"
#include "collectives/known_calls.h"
#include "collectives/operation.h"
#include "collectives/operation_queue.h"
#include "collectives/rank_context.h"
#include "collectives/runner.h"
#include "collectives/selection/table_source.h"
#include "collectives/team.h"
#include "core/deadline.h"
#include "core/device.h"
#include "core/gate.h"
#include "core/ref_counted.h"
#include "core/status.h"
#include "core/stream.h"

namespace keel {

struct CommunicatorOptions {
  int64_t timeout_ns = 0;
  // 2 MiB: long enough that the 30 to 90 us of a submission to a chip's queue are under
  // a tenth of the copy, short enough that a window stays in the second-level cache
  // between the copy that brings it and the reduction.
  uint64_t chunk_bytes = 2 << 20;
  bool forbid_alias = false;
  bool forbid_native = false;
  bool urgent = false;
  TableSource table;  // rank 0's is everybody's

  // What a rank on |device| says of itself to the others: of Team::kOfACommunicator.
  uint32_t flags(const Device& device) const;
};

// Whether windows may have that size.
Status check_chunk_bytes(uint64_t bytes);

// What a keel_comm handle names. The n-th call of a rank meets the n-th of the others, and every
// call counts: one that is refused is posted as failed in its turn, so that the ranks stay at the
// same operation whatever one of them does wrong. A call notes where the rank's stream is and
// leaves a closed gate on it; a thread of the rank's own, which parks otherwise, runs the
// operations in their order and opens the gate. So no call waits for others that have not called,
// but for a moment, and one thread may drive several ranks. Small operations run within it, and
// short ones. Operations that follow each other on a stream with nothing in between share a gate:
// the second needs no proof from the device that the first is over. Thread-safe.
class Communicator final : public GateKeeper {
 public:
  // |team| is complete, and its chunk size set; all its ranks have the same |selection|.
  Communicator(std::shared_ptr<Team> team, uint32_t rank, Ref<Device> device,
               const CommunicatorOptions& options, const Selection& selection);
  ~Communicator() override;

  // A rank of |team|, a new one: waits until all its ranks have come this far. A failure aborts the
  // team and names this rank to the others, which wait for it.
  static Status enter(std::shared_ptr<Team> team, uint32_t rank, const Ref<Device>& device,
                      const CommunicatorOptions& options, const Deadline& deadline,
                      Ref<Communicator>* out_communicator,
                      std::unique_ptr<Island> inherited = nullptr);

  // Has the thread look for islands, where there may be some; and waits until it has. Before
  // anybody calls. In two steps, for one thread that has several ranks.
  struct Task {
    bool is_begun = false;
    bool is_done = false;
    Status result;
  };
  Status begin_islands(Task* out_task, std::unique_ptr<Island> inherited = nullptr);
  Status await(Task& task);

  uint32_t rank() const { return context_.rank(); }
  uint32_t world() const { return context_.world(); }
  const Ref<Device>& device() const { return device_; }
  Team& team() { return context_.team(); }

  // The rank's next call, on |stream| of its device. Checked against the rank's own memory;
  // whether it fits the other ranks' shows later, on the streams.
  Status enqueue(Request request, const Ref<Stream>& stream);
  // The same for a small call that this rank has made before, on a stream that is quiet. The
  // buffers are known to the calling thread, by its |notes|. False where anything is not so; then
  // nothing was done. Waits for the other ranks for as long as Impatience has it.
  bool call_at_once(const CallArguments& arguments, const void* send, void* receive, Stream& stream,
                    const RememberedBlocks& notes, Status* out_status);
  // Whether enqueue() would take it, as far as that can be told now.
  Status check(const Request& request, const Ref<Stream>& stream) const;
  // The rank's next call is refused with |why|, which is returned: the others hear of it in its
  // place. As much of |request| as the caller has given; nothing of it needs to make sense.
  // Of messages those to a rank that there is. The same for a split.
  Status refuse(Request request, const Status& why);
  Status refuse_split(const Status& why);

  // A thread that waits for a stream runs the operations that its gate waits for itself:
  // that spares two changes of thread, which cost more than a small operation.
  void help(const Gate& gate, const Deadline& deadline) override;

  void set_timeout(int64_t timeout_ns) { timeout_ns_.store(timeout_ns, std::memory_order_relaxed); }
  // Everything in flight and everything later fails with |status|, on all ranks; the first
  // one sticks.
  void abort(const Status& status) { team().abort(status); }
  // As keel_comm_split: |*out_part| is empty for KEEL_NO_COLOR. Waits for all ranks.
  Status split(int32_t color, int32_t key, const CommunicatorOptions& options,
               Ref<Communicator>* out_part);
  // For keel_premul_sum_create; and what such a number stands for in |*request|.
  Status add_factor(double factor, keel_reduction* out_reduction);
  Status resolve_reduction(Request* request) const;

  // Waits until all that was enqueued is done.
  Status finish(const Deadline& deadline);
  // Finishes, tells the others that this rank calls no more, and ends the thread.
  Status close(const Deadline& deadline);
  // The same at the end of the process's use of Keel: aborts where an operation is not over.
  void shut_down(const Deadline& deadline);
  // KEEL_OK, or what it was aborted with, or that a rank has died.
  Status async_error();

  struct Stats {
    uint64_t operations = 0;
    Stage::Traffic staged;
    uint64_t in_place = 0;
    uint64_t gave_way = 0;
    uint64_t native = 0;
  };
  Stats stats() const;
  // As JSON: see explain.h; and the part about islands alone.
  std::string explain();
  std::string explain_islands();

 private:
  // Has the thread do |work| once what was called before is done; |*out_task| is there until
  // await() has returned.
  Status begin_task(std::function<Status(RankContext&, Patience&)> work, Task* out_task);
  // As enter(), which tells the other ranks where it fails.
  static Status enter_team(const std::shared_ptr<Team>& team, uint32_t rank,
                           const Ref<Device>& device, const CommunicatorOptions& options,
                           const Deadline& deadline, std::unique_ptr<Island> inherited,
                           Ref<Communicator>* out_communicator);
  // Leaves a closed gate, |hold_|, on |stream|, unless it ends with it already. After that
  // nothing may fail, or the gate would stay closed. |*out_ready|: as Stream::hold.
  Status hold_locked(keel_collective collective, const Ref<Stream>& stream,
                     Ref<EventRecord>* out_ready);
  // Has the flight recorder begin with the next call.
  FlightRecorder::Entry* record(const Request& request);
  // The communicator's end, by what this rank lacks; for want of memory too.
  void give_up(const Status& why);
  // With the call counted: leaves it to the thread to tell the others. |entry|: NULL if it is not
  // recorded yet.
  void refuse_locked(Request request, FlightRecorder::Entry* entry, const Status& why);
  // Starts the thread, and makes room for an operation; push_locked() then cannot fail.
  void make_ready_locked();
  void push_locked(Operation operation);
  // Wakes the thread if there is something for it to do.
  void call_thread();
  // |was_taken|: not refused.
  void stop_running(bool was_taken);
  // Whether |request| may be run within the call, with |mutex_| held: it is short, and all that
  // was called before is over, on the stream too.
  bool may_run_now(const Request& request, Stream& stream) const;
  bool is_short(const Request& request) const;
  // The three parts of it: the second once the call is counted, with |mutex_| held; the third
  // where it may run within the call, by either of run_now() and run_now_unlocked().
  Status enqueue_checked(Request& request, const Ref<Stream>& stream);
  Status enqueue_locked(std::unique_lock<std::mutex>& lock, Request request,
                        const Ref<Stream>& stream);
  // How far the call itself has come with an operation.
  struct Begun {
    FlightRecorder::Entry* entry = nullptr;  // NULL: it is not recorded yet
    std::optional<uint64_t> posted;          // under that number
  };
  bool begin_now(std::unique_lock<std::mutex>& lock, const Request& request,
                 const Ref<Stream>& stream, Begun* out_begun, Sides* out_sides, Status* out_status);
  // Does so if the other ranks come soon: else false, and |*out_begun|. With |mutex_| held
  // throughout: to let go of it and take it again would be a tenth of a small operation.
  bool run_now(const Request& request, const EagerBuffers& buffers, Begun* out_begun);
  // The same of one that is not eager, and recorded: without the lock, once all ranks have posted
  // it. From there on it waits for them as the thread would, who also are at it. |*out_status|:
  // whether |stream| could be told where it has failed.
  bool run_now_unlocked(std::unique_lock<std::mutex>& lock, const Request& request,
                        const Ref<Stream>& stream, Begun* begun, Sides* out_sides,
                        Status* out_status);
  // Fails |stream|, as an operation on it does that has ended with |status|.
  Status fail(std::unique_lock<std::mutex>& lock, keel_collective collective,
              const Ref<Stream>& stream, const Status& status);
  // Leaves it to the thread, or to whoever waits for the stream.
  // |sides|: where it has posted that the buffers are.
  Status leave_locked(Request request, const Begun& begun, const Sides& sides,
                      const Ref<Stream>& stream);
  // Runs the oldest operation, without the lock meanwhile.
  void run_next(std::unique_lock<std::mutex>& lock, Operation* scratch);
  void watch(std::unique_lock<std::mutex>& lock);
  void serve();
  Status run(Operation& operation);
  // What |run|() returns, also where memory runs out in it.
  template <typename Run>
  Status guarded(const Run& run) {
    try {
      return run();
    } catch (const std::bad_alloc&) {
      // Nobody can know how far it has come.
      team().abort(Status::no_memory());
      context_.stage().settle();  // its copies are of the caller's memory
      team().await_acts();
      return Status::no_memory();
    }
  }
  void complete(const Operation& operation, const Status& status);

  const Ref<Device> device_;
  const Selection selection_;     // rank 0's
  const std::string table_name_;  // what it would be by this rank
  RankContext context_;           // the thread's
  Runner runner_;                 // the thread's
  const bool forbid_alias_;
  std::unique_ptr<Islands> islands_;                // made before anybody calls; may be none
  std::shared_ptr<const IslandPlan> island_plan_;   // what looking for them has found
  const std::unique_ptr<FlightRecorder> recorder_;  // begin() with |mutex_| held
  std::atomic<int64_t> timeout_ns_;
  Impatience impatience_;  // of whoever runs an operation

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // for the thread
  std::condition_variable idle_;     // for finish(), and tasks
  OperationQueue queue_;
  KnownCalls known_;
  Ref<Hold> hold_;  // of the last operation
  std::vector<double> factors_;
  bool stopping_ = false;
  bool running_ = false;  // an operation, on whichever thread
  // Operations that were taken and not refused: those that are not over with all that follows, and
  // of them those whose outcome nobody knows yet.
  uint64_t taken_ = 0;
  uint64_t undecided_ = 0;
  // While the user's threads have been helping, this rank's own leaves the next operation to
  // them, and is not woken for it. It looks every now and then, so that one that nobody comes
  // for is a tick or two late.
  enum class Attention { kParked, kWatching, kRunning };
  Attention attention_ = Attention::kRunning;
  uint64_t helped_ = 0;  // operations that other threads have run
  bool expects_help_ = false;
  Operation helped_operation_;          // scratch of the helping thread
  uint64_t called_ = 0;                 // so far, for the recorder
  uint64_t calls_ = 0;                  // the same without messages: what the others must have, too
  uint64_t operations_ = 0;             // done
  std::atomic<bool> cancelled_{false};  // what the thread waits for is given up
  std::thread thread_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_COMMUNICATOR_H_
