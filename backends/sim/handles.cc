// SPDX-License-Identifier: Apache-2.0
#include "backends/sim/handles.h"

#include <keel/plugin_kit.hpp>

namespace keel::sim {

using emulator::Code;
using emulator::Status;

keel_status code_of(const Status& status) {
  switch (status.code()) {
    case Code::kOk:
      return KEEL_OK;
    case Code::kInvalidArgument:
      return KEEL_INVALID_ARGUMENT;
    case Code::kOutOfMemory:
      return KEEL_OUT_OF_MEMORY;
    case Code::kNotReady:
      return KEEL_NOT_READY;
    case Code::kTimedOut:
      return KEEL_TIMED_OUT;
    case Code::kIllegalAddress:
      return KEEL_OUT_OF_RANGE;
    case Code::kFailed:
      return KEEL_INTERNAL;
    case Code::kUnavailable:
      return KEEL_UNAVAILABLE;
    case Code::kUnsupported:
      return KEEL_UNSUPPORTED;
    case Code::kCancelled:
      return KEEL_CANCELLED;
    case Code::kDeviceLost:
      return KEEL_DEVICE_LOST;
  }
  return KEEL_UNKNOWN;
}

keel_status answer(const Status& status) {
  if (status.text().empty()) return code_of(status);
  return kit::fail(code_of(status), "%s", status.text().c_str());
}

emulator::Time deadline_after(int64_t timeout_ns) {
  const emulator::Time now = emulator::Clock::now();
  const emulator::Duration left = emulator::Time::max() - now;
  return timeout_ns >= left.count() ? emulator::Time::max() : now + emulator::Duration(timeout_ns);
}

}  // namespace keel::sim
