// SPDX-License-Identifier: Apache-2.0
#include "runtime.h"

#include <cmath>
#include <cstdlib>
#include <mutex>

#include "in_flight.h"
#include "memory.h"

namespace nb = nanobind;

namespace keel_python {
namespace {

// Guards the two below. Taken without the GIL, which the thread inside may wait for.
std::mutex mutex;
bool is_ours = false;            // this module has initialised Keel
std::optional<double> timeout_;  // as init() got it

keel_init_options options_of(const InitOptions& options) {
  keel_init_options out = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  if (options.plugin_folder) out.plugin_folder = options.plugin_folder->c_str();
  if (options.backends) out.backends = options.backends->c_str();
  if (options.timeout) out.default_timeout_ns = nanoseconds(options.timeout);
  out.validate = options.validate ? 1 : 0;
  return out;
}

}  // namespace

void init(const InitOptions& options) {
  const keel_init_options given = options_of(options);
  const nb::gil_scoped_release released;
  const std::lock_guard lock(mutex);
  keel::check(keel_init(&given));
  is_ours = true;
  timeout_ = options.timeout;
}

void start() {
  const nb::gil_scoped_release released;
  const std::lock_guard lock(mutex);
  if (is_ours) return;
  const keel_status status = keel_init(nullptr);
  if (status == KEEL_ALREADY_EXISTS) return;
  keel::check(status);
  is_ours = true;
}

void shutdown() {
  if (const int count = Memory::exports(); count != 0) {
    throw keel::Error(KEEL_FAILED_PRECONDITION,
                      "shutdown: " + std::to_string(count) +
                          " arrays of other libraries share the memory of buffers");
  }
  {
    const nb::gil_scoped_release released;
    const std::lock_guard lock(mutex);
    keel::check(keel_shutdown());
    is_ours = false;
    timeout_.reset();
  }
  Memory::end_epoch();
  InFlight::get().release_all();
}

void shutdown_at_exit() {
  // A library that keeps an array may read it until the process ends.
  if (!is_ours || Memory::exports() != 0) return;
  // Objects of Python that are alive still need no warning: the interpreter ends them later.
  (void)keel_set_log(KEEL_LOG_ERROR, nullptr, nullptr);
  try {
    shutdown();
  } catch (const keel::Error&) {  // of a forked child, or a thread that waits in Keel
  }
}

int64_t nanoseconds(std::optional<double> seconds, int64_t otherwise) {
  if (!seconds) return otherwise;
  if (!(*seconds >= 0)) {
    throw keel::Error(KEEL_INVALID_ARGUMENT,
                      "a timeout of " + std::to_string(*seconds) + " seconds");
  }
  return static_cast<int64_t>(std::min(*seconds, 1e9) * 1e9);
}

std::chrono::nanoseconds default_timeout() {
  if (timeout_) return std::chrono::nanoseconds(nanoseconds(timeout_));
  const char* const text = std::getenv("KEEL_TIMEOUT");
  const double seconds = text == nullptr ? 0 : std::atof(text);
  return std::chrono::nanoseconds(nanoseconds(seconds > 0 ? seconds : 600));
}

}  // namespace keel_python
