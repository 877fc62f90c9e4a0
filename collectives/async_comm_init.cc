// SPDX-License-Identifier: Apache-2.0
#include "collectives/async_comm_init.h"

#include <exception>
#include <keel/thread_start.hpp>
#include <map>
#include <new>
#include <utility>

#include "collectives/communicator_handle.h"
#include "core/insiders.h"
#include "core/runtime.h"

namespace keel {

namespace {

// Formations by handle.
struct Formations {
  std::mutex mutex;
  std::map<uint64_t, std::shared_ptr<AsyncCommInit>> by_handle;

  std::shared_ptr<AsyncCommInit> find(uint64_t handle, bool takes) {
    std::lock_guard lock(mutex);
    const auto found = by_handle.find(handle);
    if (found == by_handle.end()) return nullptr;
    std::shared_ptr<AsyncCommInit> formation = found->second;
    if (takes) by_handle.erase(found);
    return formation;
  }
};

Formations& formations() {
  static Formations& created = *[] {
    auto* made = new Formations;
    Runtime::get().add_shutdown_hook([made] {
      // No thread is inside a C function any more, hence the formations are over.
      std::map<uint64_t, std::shared_ptr<AsyncCommInit>> left;
      {
        std::lock_guard lock(made->mutex);
        left.swap(made->by_handle);
      }
      for (const auto& [handle, formation] : left) formation->close();
    });
    return made;
  }();
  return created;
}

}  // namespace

Status AsyncCommInit::start(const char* call, std::string rank, Form form, keel_comm* out_comm) {
  Formations& all = formations();
  const uint64_t handle = communicator_handles().reserve();
  if (handle == 0) return failure(KEEL_OUT_OF_MEMORY, "all handles of this kind are taken");
  try {
    const std::shared_ptr<AsyncCommInit> made(
        new AsyncCommInit(call, std::move(rank), std::move(form), handle));
    std::lock_guard lock(all.mutex);
    const auto [place, is_new] = all.by_handle.emplace(handle, made);
    try {
      // The thread keeps the object, and close() joins the thread.
      made->thread_ = kit::start_thread<std::thread>(
          "keel-comm-init", [formation = made.get()] { formation->run(); });
    } catch (...) {
      all.by_handle.erase(place);
      throw;
    }
  } catch (const std::bad_alloc& error) {
    communicator_handles().give_up(handle);
    return Status::no_memory(error);
  }
  *out_comm = {handle};
  return {};
}

std::shared_ptr<AsyncCommInit> AsyncCommInit::find(uint64_t handle) {
  return formations().find(handle, /*takes=*/false);
}

std::shared_ptr<AsyncCommInit> AsyncCommInit::take(uint64_t handle) {
  return formations().find(handle, /*takes=*/true);
}

void AsyncCommInit::run() {
  try {
    form();
  } catch (const std::bad_alloc& error) {
    end(Status::no_memory(error), {});
  } catch (const std::exception& error) {
    end({KEEL_INTERNAL, error.what()}, {});
  }
}

void AsyncCommInit::form() {
  // keel_shutdown waits for the thread until the handle is live, and then ends the communicator.
  const InsideCall inside(call_);
  if (g_api_state.load(std::memory_order_acquire) != ApiState::kOpen) {
    return end(insiders::cut_off(), {});
  }
  const CancelScope scope(cancelled_);
  Ref<Communicator> made;
  Status status = form_(&made);
  form_ = {};
  // As in a C function: a deadline that keel_shutdown made pass is no deadline of the caller's.
  if (status.code() == KEEL_TIMED_OUT &&
      g_api_state.load(std::memory_order_acquire) == ApiState::kEnding) {
    status = insiders::cut_off();
  }
  end(std::move(status), std::move(made));
}

void AsyncCommInit::end(Status status, Ref<Communicator> made) {
  std::lock_guard lock(mutex_);
  if (is_over_) return;
  is_over_ = true;
  changed_.notify_all();
  if (cancelled_.load(std::memory_order_relaxed)) {
    if (made) made->abort(status_);
    return;
  }
  status_ = std::move(status);
  if (status_.ok()) communicator_handles().fill(handle_, std::move(made));
}

Status AsyncCommInit::status() {
  std::lock_guard lock(mutex_);
  if (!is_over_ && !cancelled_.load(std::memory_order_relaxed)) return Status::not_ready();
  return status_;
}

Status AsyncCommInit::refusal() {
  const Status now = status();
  if (now.code() != KEEL_NOT_READY) return now;
  return failure(KEEL_FAILED_PRECONDITION,
                 "the communicator of {} is still forming: keel_comm_async_error returns KEEL_OK "
                 "once it has formed, and keel_comm_wait_ready waits for that",
                 rank_);
}

Status AsyncCommInit::wait(const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  const auto is_decided = [&] { return is_over_ || cancelled_.load(std::memory_order_relaxed); };
  if (deadline.wait(changed_, lock, is_decided)) return status_;
  if (deadline.is_cut_off()) return insiders::cut_off();
  return failure(KEEL_TIMED_OUT, "the communicator of {} has not formed in time", rank_);
}

void AsyncCommInit::cancel(const Status& why) {
  std::lock_guard lock(mutex_);
  if (is_over_ || cancelled_.load(std::memory_order_relaxed)) return;
  status_ = why.with_prefix(rank_ + ": ");
  cancelled_.store(true, std::memory_order_release);
  changed_.notify_all();
}

void AsyncCommInit::close() {
  cancel({KEEL_ABORTED, "the communicator was destroyed while it formed"});
  if (thread_.joinable()) thread_.join();
  if (!status_.ok()) communicator_handles().give_up(handle_);
}

}  // namespace keel
