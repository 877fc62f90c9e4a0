// SPDX-License-Identifier: Apache-2.0
// Detects the end of another process.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_PROCESS_WATCH_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_PROCESS_WATCH_H_

#include <cstdint>
#include <functional>

#include "core/status.h"

namespace keel {

// Start time of the process |pid|, in clock ticks since the host's boot; pid and start time
// together identify a process when the kernel reuses the pid. KEEL_NOT_FOUND when no such process
// exists.
Status process_start_time(int64_t pid, uint64_t* out_start_time);

// Start time of this process. 0, unknown, where /proc belongs to another pid namespace (unshare
// --pid without --mount-proc), in which this pid would name another process.
Status own_start_time(uint64_t* out_start_time);

// Returns whether the process is known to have ended, also before its parent has waited for it.
// False where that cannot be told, as for a |start_time| of 0.
bool has_process_ended(int64_t pid, uint64_t start_time);

// Waits for the kernel's event (pidfd): a killed process is noticed at once, and waiting costs
// nothing. Process-wide singleton, never destroyed. Thread-safe.
class ProcessWatch {
 public:
  static ProcessWatch& get();

  // Calls |on_exit| once, on the service thread, when the process ends; soon if the process has
  // ended already, or if |pid| now names a process with another start time than |start_time| (0:
  // unknown, not compared). KEEL_UNSUPPORTED before Linux 5.3; KEEL_UNAVAILABLE when out of file
  // descriptors; KEEL_FORKED. |*out_watch|, never 0, is written before |on_exit| can run.
  Status watch(int64_t pid, uint64_t start_time, std::function<void()> on_exit,
               uint64_t* out_watch);
  // After the return |on_exit| neither runs nor will run, except when |on_exit| itself is the
  // caller: hold no lock that |on_exit| takes. Ignores a removed watch and a watch of an ended
  // process.
  void unwatch(uint64_t watch);

 private:
  ProcessWatch() = default;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_PROCESS_WATCH_H_
