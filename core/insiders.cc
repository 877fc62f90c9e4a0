// SPDX-License-Identifier: Apache-2.0
#include "core/insiders.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

namespace keel {

namespace {

thread_local constinit uint32_t t_callbacks = 0;
thread_local constinit const std::atomic<bool>* t_cancelled = nullptr;

bool is_inside(const epoch::EpochRecord& epoch_record) {
  return epoch_record.call.load(std::memory_order_seq_cst) != nullptr ||
         epoch_record.mark.load(std::memory_order_seq_cst) != 0;
}

// Returns whether |epoch_record| was seen outside by |deadline|. One sighting is enough: later
// calls are refused.
bool await_one(const epoch::EpochRecord& epoch_record, const Deadline& deadline) {
  auto pause = std::chrono::microseconds(20);
  while (is_inside(epoch_record)) {
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds(1000));
  }
  return true;
}

}  // namespace

epoch::EpochRecord* InsideCall::enter_slowly(const char* name) {
  epoch::EpochRecord& epoch_record = epoch::register_calling_thread();
  if (epoch_record.call.load(std::memory_order_relaxed) != nullptr) return nullptr;
#if defined(__SANITIZE_THREAD__)
  // ThreadSanitizer does not model fences.
  epoch_record.call.exchange(name, std::memory_order_seq_cst);
#else
  epoch_record.call.store(name, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
  return &epoch_record;
}

UserCallback::UserCallback() {
  ++t_callbacks;
}
UserCallback::~UserCallback() {
  --t_callbacks;
}

CancelScope::CancelScope(const std::atomic<bool>& cancelled) {
  t_cancelled = &cancelled;
}
CancelScope::~CancelScope() {
  t_cancelled = nullptr;
}

const std::atomic<bool>* insiders::cancel_flag() noexcept {
  return t_cancelled;
}

bool insiders::is_inside() noexcept {
  const epoch::EpochRecord* const epoch_record = epoch::registered();
  return epoch_record != nullptr && keel::is_inside(*epoch_record);
}

bool insiders::is_in_callback() noexcept {
  return t_callbacks != 0;
}

Status insiders::cut_off() {
  if (g_api_state.load(std::memory_order_acquire) != ApiState::kEnding) {
    return {KEEL_ABORTED, "the call was cancelled"};
  }
  return {KEEL_ABORTED, kCutOff};
}

Status insiders::await(const Deadline& deadline) {
  epoch::fence_all_threads();
  uint32_t count = 0;
  std::string names;
  for (const epoch::EpochRecord* each = epoch::first_epoch_record(); each != nullptr;
       each = each->next) {
    if (await_one(*each, deadline)) continue;
    const char* const name = each->call.load(std::memory_order_relaxed);
    names += names.empty() ? "" : ", ";
    names += name == nullptr ? "a call that does not wait" : name;
    ++count;
  }
  if (count == 0) return {};
  return failure(KEEL_TIMED_OUT,
                 "{} threads are still inside Keel, in {}: nothing was taken down; call "
                 "keel_shutdown again once they have returned",
                 count, names);
}

}  // namespace keel
