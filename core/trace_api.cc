// SPDX-License-Identifier: Apache-2.0
// The C functions of traces and profilers.
#include "core/api.h"
#include "core/profiler.h"
#include "core/trace/trace.h"

using keel::api_call;
using keel::Runtime;
using keel::Status;

keel_status keel_trace_start(const char* path) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(path)
    return keel::Trace::get().start(path);
  });
}

keel_status keel_trace_stop(void) {
  return api_call([&]() -> Status {
    const keel::Deadline deadline = Runtime::get().default_deadline();
    const Status stopped = keel::Trace::get().stop(deadline);
    if (stopped.code() != KEEL_DATA_LOSS || !deadline.is_cut_off()) return stopped;
    return keel::failure(KEEL_ABORTED, "{}: {}", keel::insiders::kCutOff, stopped.text());
  });
}

keel_status keel_profiler_set(const keel_profiler* profiler) {
  return api_call([&]() -> Status {
    if (profiler != nullptr) {
      KEEL_RETURN_IF_ERROR(
          keel::check_struct(profiler, KEEL_STRUCT_PROFILER, sizeof(keel_profiler), "profiler"));
    }
    return keel::Profiler::get().set(profiler, Runtime::get().default_deadline());
  });
}
