// SPDX-License-Identifier: Apache-2.0
#include "collectives/hierarchical/native_group.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <keel/plugin_kit.hpp>
#include <keel/thread_start.hpp>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/operation.h"
#include "collectives/transports/wait_policy.h"
#include "core/copy.h"
#include "core/log.h"
#include "core/observer.h"

namespace keel {

Status NativeGroup::make_id(Device& device, NativeId* out_id) {
  uint64_t size = out_id->bytes.size();
  KEEL_RETURN_IF_ERROR(
      device.check(device.ccl_table()->unique_id(device.native(), out_id->bytes.data(), &size),
                   "ccl.unique_id"));
  if (size == 0 || size > out_id->bytes.size()) {
    return failure(KEEL_INTERNAL, "{}: ccl.unique_id: an id of {} bytes", device.name(), size);
  }
  out_id->size = static_cast<uint32_t>(size);
  return {};
}

namespace {

// Runs a library call that makes or aborts a communicator in a thread of its own. Not every library
// supports a deadline; a call that never returns leaves the thread behind.
class AsyncCommInit {
 public:
  using Make = std::function<keel_status(keel_plugin_comm** out_native)>;

  AsyncCommInit(Ref<Device> device, const char* name, Make make)
      : device_(std::move(device)), name_(name), make_(std::move(make)) {}

  static Status start(const Ref<Device>& device, const char* name, Make make,
                      std::shared_ptr<AsyncCommInit>* out_init) {
    auto init = std::make_shared<AsyncCommInit>(device, name, std::move(make));
    try {
      kit::start_thread<std::thread>("keel-native", [init] { init->run(); }).detach();
    } catch (const kit::NoThread& error) {
      return failure(KEEL_OUT_OF_MEMORY, "{}: {}: {}", device->name(), name, error.what());
    }
    *out_init = std::move(init);
    return {};
  }

  // Waits until the call returns, |failures| has one, or the deadline has passed by more than 1 s;
  // in that second the library may report the timeout itself. A library that gives up because of
  // another rank does not know the reason. The failing rank writes it to |failures|: at once, or
  // after 1 s if its own call hangs. So after KEEL_RANK_FAILED, KEEL_TIMED_OUT or KEEL_ABORTED,
  // await() waits up to 2 s for the reason, and returns the library's failure if no reason arrives.
  Status await(const AbortRecord& failures, const Deadline& deadline,
               keel_plugin_comm** out_native) {
    const Deadline latest = Deadline::after(deadline.remaining_ns() + kSlackNs);
    std::unique_lock lock(mutex_);
    while (!is_over_ && !failures.failed() && !latest.passed()) {
      over_.wait_for(lock, std::chrono::nanoseconds(WaitPolicy::kSliceNs));
    }
    if (is_over_) {
      const keel_status code = status_.code();
      if (code == KEEL_RANK_FAILED || code == KEEL_TIMED_OUT || code == KEEL_ABORTED) {
        return await_reason(failures);
      }
      *out_native = native_;
      return status_;
    }
    is_given_up_ = true;
    if (failures.failed()) return failures.status();
    return failure(KEEL_TIMED_OUT, "{}: {} does not return", device_->name(), name_);
  }
  // After a failed await(), or instead of await(): whether the call returns by |deadline|, with
  // |*out_status| then, unless NULL. A call that has not begun by then never begins.
  bool ends(const Deadline& deadline, Status* out_status = nullptr) {
    std::unique_lock lock(mutex_);
    const std::chrono::nanoseconds limit(deadline.remaining_ns());
    if (!over_.wait_for(lock, limit, [&] { return is_over_; })) {
      is_given_up_ = true;
      return false;
    }
    if (out_status != nullptr) *out_status = status_;
    return true;
  }

 private:
  Status await_reason(const AbortRecord& failures) const {
    constexpr int64_t kGraceNs = 2 * kSlackNs;
    const Deadline deadline = Deadline::after(kGraceNs);
    while (!failures.failed() && !deadline.passed()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (failures.failed()) return failures.status();
    return failure(status_.code(), "{} (no other rank said why)", status_.text());
  }
  void run() {
    keel_plugin_comm* native = nullptr;
    Status status;
    {
      // On a busy machine the thread may begin after the wait has been given up, and the device may
      // be closed by then.
      std::lock_guard lock(mutex_);
      if (is_given_up_) status = failure(KEEL_CANCELLED, "{}: {}", device_->name(), name_);
    }
    if (status.ok()) status = device_->check(make_(&native), name_);
    std::lock_guard lock(mutex_);
    if (is_given_up_ && native != nullptr) device_->ccl_table()->destroy(native);
    native_ = native;
    status_ = std::move(status);
    is_over_ = true;
    over_.notify_all();
  }

  static constexpr int64_t kSlackNs = 1'000'000'000;

  const Ref<Device> device_;
  const char* const name_;
  const Make make_;
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  bool is_given_up_ = false;
  Status status_;
  keel_plugin_comm* native_ = nullptr;
};

}  // namespace

Status NativeGroup::create(const Ref<Device>& device, const NativeId& id, uint32_t index,
                           uint32_t size, StreamLease stream, int64_t timeout_ns,
                           const AbortRecord& failures, const Deadline& deadline,
                           std::unique_ptr<NativeGroup>* out_group) {
  // Pass the full timeout rather than the rest of the deadline: the rest may be almost nothing, and
  // the library would apply it to every later operation.
  std::shared_ptr<AsyncCommInit> entrance;
  Status made = AsyncCommInit::start(
      device, "ccl.init_rank",
      [table = device->ccl_table(), native = device->native(), id, index, size,
       timeout_ns](keel_plugin_comm** out_native) {
        return table->init_rank(native, id.bytes.data(), id.size, static_cast<int32_t>(index),
                                static_cast<int32_t>(size), timeout_ns, out_native);
      },
      &entrance);
  keel_plugin_comm* native = nullptr;
  if (made.ok()) made = entrance->await(failures, deadline, &native);
  KEEL_RETURN_IF_ERROR(made);
  out_group->reset(new NativeGroup(device, native, std::move(stream), index, size));
  return {};
}

Status NativeGroup::split(std::span<const uint32_t> members, uint32_t index, StreamLease stream,
                          int64_t timeout_ns, const AbortRecord& failures, const Deadline& deadline,
                          std::unique_ptr<NativeGroup>* out_group) {
  const keel_ccl_table* table = device_->ccl_table();
  if (!KEEL_HAS(keel_ccl_table, table, split)) {
    return failure(KEEL_UNSUPPORTED, "{}: the plugin has no ccl.split", device_->name());
  }
  std::shared_ptr<AsyncCommInit> splitting;
  Status made = AsyncCommInit::start(
      device_, "ccl.split",
      [table, whole = native_, ranks = std::vector<uint32_t>(members.begin(), members.end()), index,
       timeout_ns](keel_plugin_comm** out_native) {
        return table->split(whole, ranks.data(), static_cast<uint32_t>(ranks.size()), index,
                            timeout_ns, out_native);
      },
      &splitting);
  keel_plugin_comm* native = nullptr;
  if (made.ok()) made = splitting->await(failures, deadline, &native);
  if (made.ok() && native != nullptr) {
    out_group->reset(new NativeGroup(device_, native, std::move(stream), index,
                                     static_cast<uint32_t>(members.size())));
    return {};
  }
  if (made.ok() || made.code() == KEEL_UNSUPPORTED || !splitting) return made;
  abort([&](const Deadline& limit) { return splitting->ends(limit); });
  return made;
}

void NativeGroup::abort(const std::function<bool(const Deadline& limit)>& ends) {
  is_stuck_ = true;  // unless the work ends and the call returns
  const keel_ccl_table* table = device_->ccl_table();
  Status aborted;
  std::shared_ptr<AsyncCommInit> aborting;
  if (KEEL_HAS(keel_ccl_table, table, abort)) {
    try {
      aborted = AsyncCommInit::start(
          device_, "ccl.abort",
          [table, native = native_](keel_plugin_comm**) { return table->abort(native); },
          &aborting);
    } catch (const std::bad_alloc&) {
      aborted = Status::no_memory();
    }
  }
  const bool has_begun = aborted.ok();
  // Aborted work ends within milliseconds, or never.
  constexpr int64_t kAbortLimitNs = 5'000'000'000;
  const Deadline limit = Deadline::after(kAbortLimitNs);
  const bool has_ended = ends(limit);
  const bool has_returned = has_begun && (!aborting || aborting->ends(limit, &aborted));
  if (!aborted.ok()) log(KEEL_LOG_ERROR, "{}", aborted.text());
  is_stuck_ = !has_ended || !has_returned;
}

namespace {

// Communicators that are left behind, for good: leak checkers see that they are known.
void keep_left_behind(keel_plugin_comm* native) {
  static std::mutex& mutex = *new std::mutex;
  static auto& kept = *new std::vector<keel_plugin_comm*>;
  const std::lock_guard lock(mutex);
  try {
    kept.push_back(native);
  } catch (const std::bad_alloc&) {  // a leak checker then reports it
  }
}

}  // namespace

NativeGroup::~NativeGroup() {
  if (is_stuck_) {
    log(KEEL_LOG_ERROR,
        "{}: a native communicator is left behind: its work, or a call of its library, has not "
        "ended",
        device_->name());
    keep_left_behind(native_);
  } else {
    device_->ccl_table()->destroy(native_);
  }
}

void NativeGroup::describe(AccessList& accesses, const keel_ccl_call& call) const {
  const uint64_t piece = call.count * kit::dtype_size(call.dtype);
  const bool is_root = call.root == static_cast<int32_t>(index_);
  const bool sends_pieces =
      call.collective == KEEL_REDUCE_SCATTER || call.collective == KEEL_ALL_TO_ALL;
  const bool receives_pieces =
      call.collective == KEEL_ALL_GATHER || call.collective == KEEL_ALL_TO_ALL;
  const bool reads = call.collective != KEEL_RECV && (call.collective != KEEL_BROADCAST || is_root);
  const bool writes = call.collective != KEEL_SEND && (call.collective != KEEL_REDUCE || is_root);
  if (reads) accesses.reads(device_.get(), call.send, sends_pieces ? piece * size_ : piece);
  if (writes) {
    accesses.writes(device_.get(), call.receive, receives_pieces ? piece * size_ : piece);
  }
}

Status NativeGroup::enqueue(const char* name, std::span<const Copy> copies,
                            std::span<const keel_ccl_call> calls) {
  for (const Copy& copy : copies) {
    KEEL_RETURN_IF_ERROR(submit_copy(*stream_, KEEL_COPY_DEVICE_TO_DEVICE, copy.destination,
                                     copy.source, copy.bytes));
  }
  if (calls.empty()) return {};
  const keel_ccl_table* table = device_->ccl_table();
  return stream_->submit(
      name,
      [&](AccessList& accesses) {
        for (const keel_ccl_call& call : calls) describe(accesses, call);
      },
      [&](keel_plugin_stream* native) {
        return device_->check(
            table->run(native_, native, calls.data(), static_cast<uint32_t>(calls.size())),
            "ccl.run");
      });
}

Status NativeGroup::run(const char* name, std::span<const Copy> copies,
                        std::span<const keel_ccl_call> calls, Team& team, uint32_t rank,
                        WaitContext& wait_context) {
  is_stuck_ = true;  // until the work ends
  Status status = enqueue(name, copies, calls);
  // Also after a failed ccl.run, which may have begun some of the calls.
  Ref<EventRecord> record;
  const Status recorded = stream_->record(0, &record);
  if (status.ok()) status = recorded;
  if (status.ok()) status = await(name, record, team.segment().failures(), wait_context);
  if (status.ok()) {
    is_stuck_ = false;
    return {};
  }
  // Abort the team before the library gives up: the libraries of other ranks may report the abort,
  // and those ranks should find the reason. If another rank was first, its reason stays.
  team.abort(status.with_prefix(team.name(rank) + ": "));
  give_up(record);
  return team.segment().failures().status();
}

Status NativeGroup::await(const char* name, const Ref<EventRecord>& record,
                          const AbortRecord& failures, WaitContext& wait_context) {
  while (true) {
    const int64_t slice = WaitPolicy::slice_ns(wait_context.deadline());
    const Status status = record->wait(Deadline::after(slice));
    const bool is_over = record->state() == EventRecord::State::kDone;
    if (is_over && status.ok()) return {};
    if (failures.failed()) return failures.status();
    const Status error = async_error();
    if (!error.ok()) return error;
    if (is_over) return status;
    if (wait_context.cancelled()) return wait_context.given_up();
    if (wait_context.deadline().passed()) {
      return failure(KEEL_TIMED_OUT, "native {} did not end in time", name);
    }
  }
}

Status NativeGroup::async_error() const {
  const keel_ccl_table* table = device_->ccl_table();
  if (!KEEL_HAS(keel_ccl_table, table, async_error)) return {};
  return device_->check(table->async_error(native_), "ccl.async_error");
}

void NativeGroup::give_up(const Ref<EventRecord>& record) {
  // A record is done as soon as its device is lost. Work that the plugin has lost is over; work
  // that another group gave up may run, and so may this group's.
  const auto has_ended = [&] {
    const bool is_done = record ? record->state() == EventRecord::State::kDone : device_->is_lost();
    return is_done && !device_->may_run_given_up_work();
  };
  is_stuck_ = !has_ended();
  if (!is_stuck_) return;
  abort([&](const Deadline& limit) {
    if (record) (void)record->wait(limit);
    return has_ended();
  });
  if (has_ended() || device_->is_lost()) return;
  log(KEEL_LOG_ERROR, "{}: a native operation that was given up does not end, the device is lost",
      device_->name());
  device_->give_up_work("ccl.abort");
}

}  // namespace keel
