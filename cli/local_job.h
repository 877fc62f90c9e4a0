// SPDX-License-Identifier: Apache-2.0
// The processes of a job on this host: started together, ended together.
#ifndef KEEL_CLI_LOCAL_JOB_H_
#define KEEL_CLI_LOCAL_JOB_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace keel::cli {

struct LocalJob {
  uint32_t processes = 1;
  std::vector<std::string> command;       // program, found as a shell does, and arguments
  std::chrono::milliseconds timeout{0};   // 0: none
  std::chrono::milliseconds grace{5000};  // from SIGTERM to SIGKILL
  bool label = false;                     // "[rank] " before each line of output
  bool bind = false;                      // each process to an even share of the cores
};

// Exit code of a job that ran past its timeout.
inline constexpr int kTimedOutCode = 124;

// Runs |job| with KEEL_RANK, KEEL_WORLD, KEEL_LOCAL_RANK, KEEL_LOCAL_WORLD and KEEL_MEETING in
// the environment of each process. The first that fails is named on stderr with the reason;
// then, as when the time is over, the others get SIGTERM, and SIGKILL |grace| later. Returns its
// exit code (128 + the signal that killed it; 127 where the program cannot be started), 0 when
// all ended well. SIGINT, SIGTERM and SIGHUP are passed on; a second one kills. Whatever a
// process leaves in its process group is killed when it ends; all die if this one is killed.
// Throws std::runtime_error where processes or pipes cannot be made. To be called from the
// main thread, while there is no other.
int run_local_job(const LocalJob& job);

}  // namespace keel::cli

#endif  // KEEL_CLI_LOCAL_JOB_H_
