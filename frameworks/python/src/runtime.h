// SPDX-License-Identifier: Apache-2.0
// Keel in a Python process: the start, the end, and waits that Ctrl-C interrupts.
#ifndef FRAMEWORKS_PYTHON_SRC_RUNTIME_H_
#define FRAMEWORKS_PYTHON_SRC_RUNTIME_H_

#include <keel/keel.h>
#include <nanobind/nanobind.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <keel/keel.hpp>
#include <optional>
#include <string>

namespace keel_python {

struct InitOptions {
  std::optional<std::string> plugin_folder;
  std::optional<std::string> backends;
  std::optional<double> timeout;  // seconds
  bool validate = false;
};

// Initialises Keel. Throws KEEL_ALREADY_EXISTS while Keel is initialised.
void init(const InitOptions& options);
// Initialises Keel by the defaults, unless this process already has: another extension, such as
// keel_torch, may have done so. Every function calls this that can be a program's first.
void start();
// Ends Keel. Throws KEEL_FAILED_PRECONDITION while arrays of other libraries share Keel's memory.
void shutdown();
// For atexit: ends Keel if this module has initialised Keel and no array shares Keel's memory.
void shutdown_at_exit();

// Seconds as nanoseconds; nullopt stands for |otherwise|. Throws KEEL_INVALID_ARGUMENT for NaN and
// for negative values.
int64_t nanoseconds(std::optional<double> seconds, int64_t otherwise = KEEL_TIMEOUT_DEFAULT);
// The deadline of waits without a timeout.
std::chrono::nanoseconds default_timeout();

// Waits by |wait|(timeout_ns), without the GIL. |query|() returns KEEL_NOT_READY while work is
// left. Waits in slices of 0.1 s: between two, signal handlers of Python run, and their exceptions
// end the wait. Throws the wait's failure, KEEL_TIMED_OUT at the deadline.
template <typename Wait, typename Query>
void wait_for(std::optional<double> timeout, const Wait& wait, const Query& query) {
  using Clock = std::chrono::steady_clock;
  constexpr int64_t kSlice = 100'000'000;
  const int64_t given = nanoseconds(timeout, default_timeout().count());
  const Clock::time_point end = Clock::now() + std::chrono::nanoseconds(given);
  int64_t left = given;
  while (true) {
    {
      const nanobind::gil_scoped_release released;
      const keel_status status = wait(std::min(left, kSlice));
      if (status != KEEL_TIMED_OUT) return keel::check(status);
      const keel::Error failure(status, keel_last_error());
      left = std::chrono::nanoseconds(end - Clock::now()).count();
      // Any other answer than KEEL_NOT_READY: the work failed, or ended after the wait.
      const keel_status now = left > 0 ? query() : KEEL_NOT_READY;
      if (now != KEEL_NOT_READY) return keel::check(now);
      if (left <= 0) throw failure;
    }
    if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
  }
}

}  // namespace keel_python

#endif  // FRAMEWORKS_PYTHON_SRC_RUNTIME_H_
