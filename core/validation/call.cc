// SPDX-License-Identifier: Apache-2.0
#include "core/validation/call.h"

#include "core/status.h"
#include "core/validation/validation.h"

namespace keel::validation {

Call::~Call() {
  for (const std::string& problem : problems_) report_problem(problem);
}

void Call::note(std::string text) {
  problems_.push_back(owner_.empty() ? fmt::format("{}: {}", name_, text)
                                     : fmt::format("{}: {}: {}", owner_, name_, text));
}

bool Call::fail(keel_status code, std::string text) {
  code_ = code;
  text_ = text;
  note(std::move(text));
  return false;
}

keel_status Call::refused() const {
  set_plugin_text(fmt::format("validation: {}", text_).c_str());
  return code_;
}

bool Call::check_range(const Range& range) {
  if (!check(range.pointer != nullptr, "{} is NULL", range.argument)) return false;
  std::lock_guard lock(range.device.mutex);
  const auto block = range.device.allocations.find(range.space, range.pointer);
  if (block == nullptr) {
    // Any host memory may be copied, but device memory must have been allocated.
    return check(range.space == Space::kHost, "{} {} lies in no live allocation of {}",
                 range.argument, range.pointer, range.device.name);
  }
  const uint64_t offset = reinterpret_cast<uintptr_t>(range.pointer) - block->base;
  return check(range.size <= block->size - offset,
               "{} {} + {} reaches past its allocation of {} at offset {}", range.argument,
               range.pointer, range.size, block->size, offset);
}

keel_status Call::answer(keel_status code, Answer kind) {
  if (code == KEEL_DEVICE_LOST && device_ != nullptr) {
    device_->lost.store(true, std::memory_order_relaxed);
  }
  if (code == KEEL_NOT_READY && kind != Answer::kQuery) {
    return broken("the plugin returned KEEL_NOT_READY, which only a query may");
  }
  if (code != KEEL_UNKNOWN && std::strcmp(status_name(code), "KEEL_UNKNOWN") == 0) {
    return broken("the plugin returned {}, which is no status", code);
  }
  return code;
}

const void* this_thread() {
  thread_local const char mark = 0;
  return &mark;
}

Enqueue::Enqueue(Call& call, keel_plugin_stream* handle, bool new_work) : name_(call.name()) {
  if (!call.find(handle, &stream_)) return;
  {
    std::lock_guard lock(stream_->device->mutex);
    // Only a thread that got the report can be blamed: another may be about to learn of the
    // failure.
    if (new_work && !call.check_state(stream_->told != this_thread(),
                                      "the stream has failed with {}: its owner must make another",
                                      status_name(stream_->failure))) {
      return;
    }
  }
  const void* other = nullptr;
  claimed_ = stream_->enqueuer.compare_exchange_strong(other, this_thread());
  (void)call.check_state(claimed_, "another thread is enqueueing on this stream");
}

Enqueue::~Enqueue() {
  if (claimed_) stream_->enqueuer.store(nullptr);
}

uint64_t Enqueue::done(const std::vector<Range>& ranges) {
  const uint64_t position = stream_->timeline->enqueue();
  for (const Range& range : ranges) {
    std::lock_guard lock(range.device.mutex);
    const Use use{stream_->timeline, position, name_};
    if (const auto block = range.device.allocations.find(range.space, range.pointer)) {
      block->add_use(use);
    }
    if (range.space != Space::kHost || range.device.registered.empty()) continue;
    const auto address = reinterpret_cast<uintptr_t>(range.pointer);
    auto next = range.device.registered.upper_bound(address);
    if (next == range.device.registered.begin()) continue;
    Block& registered = (--next)->second;
    if (address - registered.base < registered.size) registered.add_use(use);
  }
  return position;
}

}  // namespace keel::validation
