// SPDX-License-Identifier: Apache-2.0
#include "core/api.h"

#include <cstring>

namespace keel {

keel_status refuse_call(ApiState state) noexcept {
  if (state == ApiState::kForked) {
    return report(KEEL_FORKED, "this process is a forked child: it must exec first");
  }
  if (state == ApiState::kEnding) {
    return report(KEEL_FAILED_PRECONDITION, "Keel is being shut down");
  }
  return report(KEEL_FAILED_PRECONDITION, "keel_init has not been called");
}

keel_status report(const Status& status) noexcept {
  if (status.code() == KEEL_TIMED_OUT &&
      g_api_state.load(std::memory_order_acquire) == ApiState::kEnding && insiders::is_inside()) {
    return report(KEEL_ABORTED, insiders::kCutOff);
  }
  set_last_error(status.text());
  return status.code();
}

keel_status report(keel_status code, const char* text) noexcept {
  set_last_error(text);
  return code;
}

keel_status report_answer(Device& device, keel_status code, const char* call) noexcept {
  try {
    const Status status = device.check(code, call);
    return status.failed() ? report(status) : status.code();
  } catch (const std::bad_alloc&) {
    return report(KEEL_OUT_OF_MEMORY, "out of host memory");
  }
}

Status unknown_handle(uint64_t id, const char* name) {
  return failure(KEEL_INVALID_HANDLE, "{} {:#x} is not a live handle", name, id);
}

Status return_text(const std::string& text, char* out_text, uint64_t* in_out_size) {
  KEEL_REQUIRE(in_out_size)
  const uint64_t room = *in_out_size;
  const uint64_t needed = text.size() + 1;
  if (room != 0) KEEL_REQUIRE(out_text)
  *in_out_size = needed;
  if (room < needed) {
    return failure(KEEL_OUT_OF_RANGE, "*in_out_size is {}, the text needs {}", room, needed);
  }
  std::memcpy(out_text, text.c_str(), needed);
  return {};
}

}  // namespace keel
