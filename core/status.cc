// SPDX-License-Identifier: Apache-2.0
#include "core/status.h"

#include <algorithm>
#include <cstring>
#include <keel/thread_start.hpp>

namespace keel {

namespace {
// Fixed size, so that an out-of-memory failure can be reported too; longer texts are cut.
thread_local char t_last_error[2048];
thread_local std::string t_plugin_text;
}  // namespace

Status::Status(keel_status code, std::string text) {
  if (code == KEEL_OK || code == KEEL_NOT_READY) {
    word_ = code == KEEL_OK ? 0 : kNotReady;
    return;
  }
  word_ = reinterpret_cast<uintptr_t>(new Failure{1, code, std::move(text)});
}

Status::Failure* const Status::no_memory_ =
    new Failure{1, KEEL_OUT_OF_MEMORY, "out of host memory"};

Status Status::no_memory(const std::bad_alloc& error) {
  const auto* const no_thread = dynamic_cast<const kit::NoThread*>(&error);
  if (no_thread == nullptr) return no_memory();
  try {
    return {KEEL_OUT_OF_MEMORY, no_thread->what()};
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
}

void Status::release() noexcept {
  if (shared().references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete &shared();
}

const char* status_name(keel_status code) {
  switch (code) {
#define KEEL_NAME(name) \
  case name:            \
    return #name
    KEEL_NAME(KEEL_OK);
    KEEL_NAME(KEEL_CANCELLED);
    KEEL_NAME(KEEL_INVALID_ARGUMENT);
    KEEL_NAME(KEEL_TIMED_OUT);
    KEEL_NAME(KEEL_NOT_FOUND);
    KEEL_NAME(KEEL_ALREADY_EXISTS);
    KEEL_NAME(KEEL_PERMISSION_DENIED);
    KEEL_NAME(KEEL_OUT_OF_MEMORY);
    KEEL_NAME(KEEL_FAILED_PRECONDITION);
    KEEL_NAME(KEEL_ABORTED);
    KEEL_NAME(KEEL_OUT_OF_RANGE);
    KEEL_NAME(KEEL_UNSUPPORTED);
    KEEL_NAME(KEEL_INTERNAL);
    KEEL_NAME(KEEL_UNAVAILABLE);
    KEEL_NAME(KEEL_DATA_LOSS);
    KEEL_NAME(KEEL_NOT_READY);
    KEEL_NAME(KEEL_DEVICE_LOST);
    KEEL_NAME(KEEL_RANK_FAILED);
    KEEL_NAME(KEEL_INVALID_HANDLE);
    KEEL_NAME(KEEL_FORKED);
    KEEL_NAME(KEEL_STREAM_FAILED);
#undef KEEL_NAME
    default:
      return "KEEL_UNKNOWN";
  }
}

bool is_status(keel_status code) {
  return code == KEEL_UNKNOWN || std::strcmp(status_name(code), "KEEL_UNKNOWN") != 0;
}

void set_last_error(const char* text) {
  const size_t length = std::min(std::strlen(text), sizeof(t_last_error) - 1);
  std::memcpy(t_last_error, text, length);
  t_last_error[length] = '\0';
}
const char* last_error() {
  return t_last_error;
}

void set_plugin_text(const char* text) {
  t_plugin_text = text == nullptr ? "" : text;
}
std::string take_plugin_text() {
  std::string text;
  text.swap(t_plugin_text);
  return text;
}

}  // namespace keel
