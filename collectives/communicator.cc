// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator.h"

#include <algorithm>
#include <keel/thread_start.hpp>
#include <new>

#include "collectives/explain.h"
#include "collectives/selection/agreement.h"
#include "core/observer.h"

namespace keel {

namespace {

// Longest queue left to helping threads: more operations than a thread calls before it waits.
constexpr size_t kLeftToHelpers = 8;

// Aborts |team|, since |rank| failed with |own| and its peers wait. Returns |own| with the rank's
// name. If the team has failed before, returns |own|, a consequence of the earlier failure.
Status tell_failure(Team& team, uint32_t rank, const Status& own) {
  if (team.segment().failures().failed()) return own;
  try {
    // The text of a deadline names the missing ranks.
    const bool is_deadline = own.code() == KEEL_TIMED_OUT;
    const Status named = own.with_prefix(team.name(rank) + (is_deadline ? " gave up: " : ": "));
    team.abort(failure(is_deadline ? KEEL_TIMED_OUT : KEEL_RANK_FAILED, "{}", named.text()));
    return named;
  } catch (const std::bad_alloc&) {
    team.abort(Status::no_memory());
    return own;
  }
}

// The allocations that |context| falls back to, while an operation runs.
class KeptScope {
 public:
  KeptScope(RankContext& context, const KeptAllocations& allocations) : context_(context) {
    context_.kept = &allocations;
  }
  ~KeptScope() { context_.kept = nullptr; }
  KeptScope(const KeptScope&) = delete;
  KeptScope& operator=(const KeptScope&) = delete;

 private:
  RankContext& context_;
};

// Whether peers may run the operation within their calls, and wait for this rank.
bool is_awaited(const Operation& operation) {
  return operation.published && operation.request.algorithm != Algorithm::kEager;
}

}  // namespace

uint32_t CommunicatorOptions::flags(const Device& device) const {
  const auto why = static_cast<uint32_t>(native_why(device, forbid_native));
  return (urgent ? Team::kUrgent : 0u) | why << Team::kNativeShift;
}

HostAgreement CommunicatorOptions::agreement() const {
  HostAgreement agreement;
  agreement.chunk_bytes = chunk_bytes;
  agreement.algorithm = table.forced;
  agreement.rules = host_rules_of(table.rules);
  agreement.lane_shares = table.lane_shares;
  return agreement;
}

Communicator::Communicator(std::shared_ptr<Team> team, uint32_t rank, Ref<Device> device,
                           const CommunicatorOptions& options, const Selection& selection,
                           std::unique_ptr<HostGroup> hosts)
    : device_(std::move(device)),
      selection_(selection),
      table_name_(options.table.name),
      context_(std::move(team), rank, device_, options.forbid_alias),
      runner_(context_),
      hosts_(hosts ? std::make_unique<HostRunner>(context_, runner_, selection_, std::move(hosts))
                   : nullptr),
      forbid_alias_(options.forbid_alias),
      recorder_(FlightRecorder::create({id(), this->rank(), world(), device_->name()})),
      timeout_ns_(options.timeout_ns),
      spin_(context_.segment().wait_policy()) {
  context_.reduce_scatter_chunks = selection_.reduce_scatter_chunks();
  context_.make_staging();
}

Communicator::~Communicator() {
  close(Deadline::after(0)).ok();
}

// ---- what is to run ------------------------------------------------------------

void Communicator::make_ready_locked() {
  queue_.reserve();
  if (!thread_.joinable()) {
    thread_ = kit::start_thread<std::thread>("keel-comm", [this] { serve(); });
  }
}

void Communicator::push_locked(Operation operation) {
  operation.call = calls_;
  if (operation.refused.ok()) {
    ++taken_;
    ++undecided_;
  }
  queue_.push(std::move(operation));
  call_thread();
}

void Communicator::give_up(const Status& why) {
  try {
    abort(why.with_prefix(team().name(local_rank()) + ": "));
  } catch (const std::bad_alloc&) {
    abort(Status::no_memory());
  }
}

void Communicator::give_up_published(const Status& why) {
  give_up(why);
  await_end_of_use();
}

void Communicator::await_end_of_use() {
  context_.stage().settle();
  team().await_acts();
}

void Communicator::call_thread() {
  if (attention_ == Attention::kRunning) return;
  const bool is_left_to_others = attention_ == Attention::kWatching &&
                                 queue_.size() <= kLeftToHelpers &&
                                 (queue_.empty() || !is_awaited(queue_.front()));
  if (stopping_ || (!queue_.empty() && !is_left_to_others)) changed_.notify_one();
}

void Communicator::stop_running(bool was_taken) {
  running_ = false;
  if (was_taken && --taken_ == 0) idle_.notify_all();
  call_thread();
}

Status Communicator::begin_task(std::function<Status(RankContext&, WaitContext&)> work,
                                Task* out_task) {
  Operation operation;
  operation.timeout_ns = timeout_ns_.load(std::memory_order_relaxed);
  operation.task = [this, work = std::move(work), out_task](RankContext& context,
                                                            WaitContext& wait_context) {
    Status status;
    try {
      status = work(context, wait_context);
    } catch (const std::bad_alloc& error) {
      status = tell_failure(team(), local_rank(), Status::no_memory(error));
    }
    std::lock_guard lock(mutex_);
    --undecided_;
    out_task->result = std::move(status);
    out_task->is_done = true;
    idle_.notify_all();
  };
  std::unique_lock lock(mutex_);
  if (stopping_) return failure(KEEL_ABORTED, "rank {} left the communicator", rank());
  make_ready_locked();
  ++calls_;
  push_locked(std::move(operation));
  out_task->is_begun = true;
  return {};
}

Status Communicator::await(Task& task) {
  if (!task.is_begun) return {};
  std::unique_lock lock(mutex_);
  // The task and all operations before it have deadlines. A shutdown does not end the
  // communicator's thread while the calling thread is inside Keel.
  const auto slice = std::chrono::nanoseconds(Deadline::kSliceNs);
  while (!idle_.wait_for(lock, slice, [&] { return task.is_done; })) {
    if (insiders::are_cut_off()) abort(insiders::cut_off());
  }
  return task.result;
}

// ---- parts ----------------------------------------------------------------------

Status check_chunk_bytes(uint64_t bytes) {
  constexpr uint64_t kSmallest = 4096;
  constexpr uint64_t kLargest = 1ull << 30;
  if (bytes >= kSmallest && bytes <= kLargest && bytes % 64 == 0) return {};
  return failure(KEEL_INVALID_ARGUMENT, "options.chunk_bytes is {}: a multiple of 64 from {} to {}",
                 bytes, kSmallest, kLargest);
}

Status Communicator::enter(std::shared_ptr<Team> team, uint32_t rank, const Ref<Device>& device,
                           const CommunicatorOptions& options, const Deadline& deadline,
                           Ref<Communicator>* out_communicator,
                           std::unique_ptr<NativeGroup> inherited,
                           std::unique_ptr<HostGroup> hosts) {
  // Outlives the abort: a destroyed communicator leaves the team, and the peers would report the
  // departure.
  Ref<Communicator> made;
  Status entered;
  try {
    entered =
        enter_team(team, rank, device, options, deadline, std::move(inherited), &hosts, &made);
  } catch (const std::bad_alloc& error) {
    entered = Status::no_memory(error);
  }
  if (!entered.ok()) {
    const Status told = tell_failure(*team, rank, entered);
    const Status cause = team->segment().failures().status();
    if (made) {
      made->abort(cause);
    } else if (hosts) {
      hosts->abort(cause);
    }
    return told;
  }
  *out_communicator = std::move(made);
  return {};
}

Status Communicator::enter_team(const std::shared_ptr<Team>& team, uint32_t rank,
                                const Ref<Device>& device, const CommunicatorOptions& options,
                                const Deadline& deadline, std::unique_ptr<NativeGroup> inherited,
                                std::unique_ptr<HostGroup>* hosts,
                                Ref<Communicator>* out_communicator) {
  Selection selection;
  if (rank == 0) {
    team->segment().set_chunk_bytes(options.chunk_bytes);
    KEEL_RETURN_IF_ERROR(propose_selection(*team, options.table, &selection));
  }
  const std::atomic<bool> never{false};
  WaitContext wait_context(deadline.remaining_ns(), never);
  // The first barrier; the rank's own steps follow.
  team->segment().board().arrive(rank, 1);
  const Status met = team->segment().board().await_step(1, wait_context);
  if (met.code() == KEEL_TIMED_OUT) {
    return failure(KEEL_TIMED_OUT, "{} did not get ready in time",
                   team->name_ranks([&](uint32_t other) {
                     return !team->segment().board().has_arrived(other, 1);
                   }));
  }
  KEEL_RETURN_IF_ERROR(met);
  KEEL_RETURN_IF_ERROR(check_chunk_bytes(team->segment().chunk_bytes()).with_prefix("rank 0: "));
  KEEL_RETURN_IF_ERROR(accept_selection(*team, rank, options.table, &selection));
  *out_communicator =
      make_ref<Communicator>(team, rank, device, options, selection, std::move(*hosts));
  Communicator& communicator = **out_communicator;
  communicator.context_.step = 1;
  Task task;
  KEEL_RETURN_IF_ERROR(communicator.begin_islands(&task, std::move(inherited)));
  return communicator.await(task);
}

Status Communicator::begin_islands(Task* out_task, std::unique_ptr<NativeGroup> inherited) {
  if (!Hierarchical::may_form(team())) return {};
  // Shared, since the function of a task must be copyable.
  auto held = std::make_shared<std::unique_ptr<NativeGroup>>(std::move(inherited));
  const auto form = [this, held](RankContext& context, WaitContext& wait_context) {
    KEEL_RETURN_IF_ERROR(Hierarchical::form(context, device_, forbid_alias_, std::move(*held),
                                            wait_context, &islands_));
    hierarchical_plan_ = islands_->plan();
    if (!hierarchical_plan_->any()) islands_ = {};
    runner_.use(islands_.get());
    return Status();
  };
  try {
    return begin_task(form, out_task);
  } catch (const std::bad_alloc& error) {
    return Status::no_memory(error);  // the caller informs the other ranks of this process
  }
}

// ---- the thread -----------------------------------------------------------------

void Communicator::run_next(std::unique_lock<std::mutex>& lock, Operation* scratch) {
  queue_.pop(scratch);
  running_ = true;
  const bool was_taken = scratch->refused.ok();
  running_operation_ = was_taken && !scratch->task ? scratch : nullptr;
  lock.unlock();
  context_.call = scratch->call;
  if (scratch->task) {
    // In a task, peers may wait for more than the rank's descriptors.
    context_.failures().set_busy(local_rank(), true);
    WaitContext wait_context(scratch->timeout_ns, cancelled_);
    scratch->task(context_, wait_context);
    scratch->task = {};
    context_.failures().set_busy(local_rank(), false);
  } else {
    const Status status = guarded([&] { return run(*scratch); });
    FlightRecorder::finish(scratch->entry, status.code());
    if (was_taken) complete(*scratch, status);
  }
  scratch->ready = {};
  scratch->hold = {};
  scratch->refused = {};
  lock.lock();
  stop_running(was_taken);
}

void Communicator::help(const Gate& gate, const Deadline& deadline) {
  // Observers tell user threads from Keel's threads by the work done, so user threads must not
  // help.
  if (observers::active()) return;
  // The operations have deadlines of their own, and cannot be left half-way.
  constexpr int64_t kSlackNs = 10'000'000;
  std::unique_lock lock(mutex_);
  while (!gate.is_open() && !running_ && !queue_.empty() && !stopping_) {
    if (queue_.front().timeout_ns > deadline.remaining_ns() + kSlackNs) return;
    run_next(lock, &helped_operation_);
    ++helped_;
    expects_help_ = true;
  }
}

void Communicator::watch(std::unique_lock<std::mutex>& lock) {
  constexpr auto kTick = std::chrono::milliseconds(1);
  constexpr uint32_t kTicks = 10;
  uint64_t seen = helped_;
  uint32_t quiet = 0;
  uint32_t left_alone = 0;
  attention_ = Attention::kWatching;
  while (expects_help_ && !stopping_) {
    changed_.wait_for(lock, kTick);
    const bool is_waiting = !queue_.empty() && !running_;
    if (is_waiting &&
        (queue_.size() > kLeftToHelpers || is_awaited(queue_.front()) || ++left_alone == 2)) {
      break;
    }
    if (!is_waiting) left_alone = 0;
    quiet = helped_ == seen ? quiet + 1 : 0;
    seen = helped_;
    if (quiet == kTicks) break;
  }
  expects_help_ = false;
}

void Communicator::serve() {
  Operation operation;
  std::unique_lock lock(mutex_);
  while (true) {
    if (expects_help_) watch(lock);
    attention_ = Attention::kParked;
    changed_.wait(lock,
                  [&] { return (stopping_ || !queue_.empty() || expects_help_) && !running_; });
    attention_ = Attention::kRunning;
    if (queue_.empty() && stopping_) return;
    while (!queue_.empty() && !running_) run_next(lock, &operation);
  }
}

Status Communicator::run(Operation& operation) {
  // Comes first: the span marks the thread as Keel's for observers.
  const HostSpan span(collective_name(operation.request.collective));
  WaitContext wait_context(operation.timeout_ns, cancelled_);
  if (!operation.refused.ok()) {
    if (hosts_) {
      return hosts_->run(operation.request, operation.refused, operation.entry, wait_context);
    }
    return runner_.refuse(operation.request, operation.refused, operation.entry, wait_context);
  }
  Status ready;
  {
    std::lock_guard lock(mutex_);
    ready = operation.hold->status;
  }
  if (ready.ok() && context_.failures().failed()) {
    // The call has shown the peers its buffer, which they may be reading.
    if (operation.published) await_end_of_use();
    ready = context_.failures().status();
    if (!hosts_) return ready;  // HostRunner adds which operation has failed
  }
  if (ready.ok() && operation.ready) {
    const AbortRecord& failures = context_.failures();
    const auto is_given_up = [&] { return failures.failed(); };
    context_.board().show_call(local_rank(), OperationBoard::kShownHeld,
                               told_print(operation.request));
    ready = wait_context.wait(operation.ready, is_given_up);
    context_.board().hide_call(local_rank());
    // The device's text would describe a wait unknown to the user.
    if (ready.code() == KEEL_TIMED_OUT) {
      ready = failure(KEEL_TIMED_OUT, "what is before it on its stream was not over in time");
    }
    if (context_.failures().failed()) {
      ready = context_.failures().status();
      if (!hosts_) return ready;
    }
  }
  const KeptScope kept(context_, operation.allocations);
  if (hosts_) return hosts_->run(operation.request, ready, operation.entry, wait_context);
  return runner_.run(operation.request, ready, operation.entry, wait_context, operation.published,
                     operation.sides);
}

void Communicator::complete(const Operation& operation, const Status& status) {
  HeldStream& hold = *operation.hold;
  {
    std::lock_guard lock(mutex_);
    ++operations_;
    --undecided_;
    running_operation_ = nullptr;  // before the gate opens: the caller may then unregister memory
    if (!status.ok() && hold.status.ok()) hold.status = status;
    if (--hold.pending != 0) return;
    if (hold_.get() == &hold) hold_ = {};
  }
  WakeList wake;
  hold.gate->open(hold.status, wake);
  advance_all(wake);
}

// ---- the end --------------------------------------------------------------------

Status Communicator::finish(const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  if (deadline.wait(idle_, lock, [&] { return taken_ == 0; })) return {};
  return failure(KEEL_TIMED_OUT, "the communicator's operations did not end in time");
}

Status Communicator::close(const Deadline& deadline) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return {};
  }
  Status finished = finish(deadline);
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return finished;
    stopping_ = true;
  }
  // Operations of the peers without a call of this rank can never complete.
  cancelled_.store(true, std::memory_order_relaxed);
  team().leave(local_rank());
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  return finished;
}

void Communicator::shut_down(const Deadline& deadline) {
  bool is_over = false;
  {
    std::lock_guard lock(mutex_);
    is_over = undecided_ == 0;
  }
  // If no outcome is open, peers may still be completing the same operations and must not fail.
  if (!is_over) give_up({KEEL_ABORTED, "Keel was shut down"});
  close(deadline).ok();
}

Status Communicator::async_error() {
  const AbortRecord& failures = context_.failures();
  return failures.failed() ? failures.status() : failures.first_death();
}

Status Communicator::rank_status(uint32_t rank) {
  if (rank >= world()) {
    return failure(KEEL_INVALID_ARGUMENT, "rank is {}; the communicator has {} ranks", rank,
                   world());
  }
  const AbortRecord& failures = context_.failures();
  if (failures.failed()) return failures.status();
  if (!hosts_) return failures.absence_status(rank);
  // A lost rank of another host fails the communicator as a whole.
  const std::optional<uint32_t> local = hosts_->group().find_local(rank);
  return local ? failures.absence_status(*local) : Status();
}

Communicator::Stats Communicator::stats() const {
  Stats stats;
  {
    std::lock_guard lock(mutex_);
    stats.operations = operations_;
  }
  stats.staged = context_.traffic();
  stats.in_place = context_.in_place();
  stats.preempted = context_.preempted();
  if (hosts_) {
    const HostRunner::Stats between = hosts_->stats();
    stats.staged.to_host += between.staged.to_host;
    stats.staged.to_device += between.staged.to_device;
  }
  if (!islands_) return stats;
  stats.staged.to_host += islands_->staged().to_host;
  stats.staged.to_device += islands_->staged().to_device;
  stats.in_place += islands_->in_place();
  stats.preempted += islands_->preempted();
  stats.native = islands_->operations();
  return stats;
}

HierarchicalPlan Communicator::plan_of_islands() {
  return hierarchical_plan_ ? *hierarchical_plan_ : Hierarchical::plan_without(team());
}

std::string Communicator::explain() {
  std::string text;
  JsonWriter json(&text, JsonLayout::kOneLine);
  const auto write_inside = [&] {
    explain_communicator(context_, timeout_ns_.load(std::memory_order_relaxed), selection_,
                         table_name_, plan_of_islands(),
                         islands_ ? islands_->last_operation() : nullptr, json);
  };
  hosts_ ? hosts_->explain(write_inside, json) : write_inside();
  return text;
}

}  // namespace keel
