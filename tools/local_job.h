// SPDX-License-Identifier: Apache-2.0
// The processes of a job on this host, started together and ended together.
#ifndef KEEL_TOOLS_LOCAL_JOB_H_
#define KEEL_TOOLS_LOCAL_JOB_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/host_launch.h"

namespace keel::cli {

struct LocalJob {
  uint32_t processes = 1;
  std::vector<std::string> command;       // program, looked up like a shell, and arguments
  std::chrono::milliseconds timeout{0};   // 0: none
  std::chrono::milliseconds grace{5000};  // from SIGTERM to SIGKILL
  bool label = false;                     // "[rank] " before each line of output
  std::optional<HostLaunch> hosts;        // start the processes on several hosts
  bool keep_going = false;                // a failed process does not end the others
  bool bind = false;                      // bind each process to an even share of cores
};

// Exit code of a job that exceeded its timeout.
inline constexpr int kTimedOutCode = 124;

// Runs |job| with KEEL_RANK, KEEL_WORLD, KEEL_LOCAL_RANK, KEEL_LOCAL_WORLD and KEEL_BOOTSTRAP in
// the environment of each process. The first failing process is named on stderr with the reason.
// After a failure or the timeout, the remaining processes get SIGTERM, and SIGKILL |grace| later.
// With |keep_going| every failed process is named and the others continue; processes that succeed
// then make the job a success. Returns the exit code of the first failed process (128 + the signal
// that killed the process; 127 if the program cannot be started), kTimedOutCode after a timeout, 0
// if all succeeded. SIGINT, SIGTERM and SIGHUP are forwarded; a second signal kills the processes.
// When a process ends, the rest of its process group is killed; all processes die if this one is
// killed. Throws std::runtime_error if processes or pipes cannot be created. Call from the main
// thread, while no other thread exists.
int run_local_job(const LocalJob& job);

}  // namespace keel::cli

#endif  // KEEL_TOOLS_LOCAL_JOB_H_
