// SPDX-License-Identifier: Apache-2.0
#include "core/insiders.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

namespace keel {

namespace {

thread_local constinit uint32_t t_callbacks = 0;

bool is_inside(const epoch::Participant& participant) {
  return participant.call.load(std::memory_order_seq_cst) != nullptr ||
         participant.mark.load(std::memory_order_seq_cst) != 0;
}

// Returns whether |participant| was seen outside by |deadline|. One sighting is enough: later calls
// are refused.
bool await_one(const epoch::Participant& participant, const Deadline& deadline) {
  auto pause = std::chrono::microseconds(20);
  while (is_inside(participant)) {
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds(1000));
  }
  return true;
}

}  // namespace

epoch::Participant* InsideCall::enter_slowly(const char* name) {
  epoch::Participant& participant = epoch::register_calling_thread();
  if (participant.call.load(std::memory_order_relaxed) != nullptr) return nullptr;
#if defined(__SANITIZE_THREAD__)
  // ThreadSanitizer does not model fences.
  participant.call.exchange(name, std::memory_order_seq_cst);
#else
  participant.call.store(name, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
  return &participant;
}

UserCallback::UserCallback() {
  ++t_callbacks;
}
UserCallback::~UserCallback() {
  --t_callbacks;
}

bool insiders::is_inside() noexcept {
  const epoch::Participant* const participant = epoch::registered();
  return participant != nullptr && keel::is_inside(*participant);
}

bool insiders::is_in_callback() noexcept {
  return t_callbacks != 0;
}

Status insiders::cut_off() {
  return {KEEL_ABORTED, kCutOff};
}

Status insiders::await(const Deadline& deadline) {
  epoch::fence_all_threads();
  uint32_t count = 0;
  std::string names;
  for (const epoch::Participant* each = epoch::first_participant(); each != nullptr;
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
