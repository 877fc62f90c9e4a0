// SPDX-License-Identifier: Apache-2.0
// Learning that another process has ended.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_PROCESS_WATCH_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_PROCESS_WATCH_H_

#include <cstdint>
#include <functional>

#include "core/status.h"

namespace keel {

// When the process |pid| was started, in clock ticks since the host was: with it a pid that
// was given again is told from the one it was. KEEL_NOT_FOUND when there is no such process.
Status process_start_time(int64_t pid, uint64_t* out_start_time);

// The start time of this process; 0, not known, where /proc is that of another pid namespace, and
// pids would be looked up in it as those of other processes (unshare --pid without --mount-proc).
Status own_start_time(uint64_t* out_start_time);

// An event of the kernel's (pidfd), so that a process that is killed is noticed at once, and
// waiting costs nothing. One a process, never destroyed. Thread-safe.
class ProcessWatch {
 public:
  static ProcessWatch& get();

  // Calls |on_exit| once, on the service thread, when the process ends; soon if it has ended
  // already, or if |pid| is now another one's, started at another time than |start_time|, where
  // that is known.
  // KEEL_UNSUPPORTED before Linux 5.3; KEEL_UNAVAILABLE when no more files may be opened;
  // KEEL_FORKED. |*out_watch|, never 0, is written before |on_exit| can run.
  Status watch(int64_t pid, uint64_t start_time, std::function<void()> on_exit,
               uint64_t* out_watch);
  // Once this returns |on_exit| does not run, and will not, unless it is |on_exit| that calls:
  // so the caller holds no lock that |on_exit| takes. One that was unwatched, or whose process
  // has ended, is fine.
  void unwatch(uint64_t watch);

 private:
  ProcessWatch() = default;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_PROCESS_WATCH_H_
