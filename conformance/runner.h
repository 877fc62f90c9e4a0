// SPDX-License-Identifier: Apache-2.0
// Runs cases in worker processes, and finds out whose fault it was when one dies.
#ifndef KEEL_CONFORMANCE_RUNNER_H_
#define KEEL_CONFORMANCE_RUNNER_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "conformance/environment.h"
#include "conformance/judge.h"
#include "conformance/protocol.h"
#include "conformance/result.h"

namespace keel::conformance {

struct RunSettings {
  PluginChoice choice;
  uint64_t seed = 42;
  uint32_t timeout_seconds = 20;  // of each case
  std::string path;               // of the plugin file, once it is discovered
  // Workers that run cases of level ops side by side; 0: default_jobs() of the discovery.
  uint32_t jobs = 0;
};

// What a worker says there is.
struct Discovery {
  Found found;
  std::shared_ptr<const JudgedCases> cases;  // NULL where there is nothing
  std::string error;                         // why there is nothing
  bool usage = false;                        // the error is the caller's: no such backend
  Outcome outcome = Outcome::kFail;          // of loading the plugin, where |error| is not empty
};

Discovery discover(const RunSettings& settings);

// One worker for each core that this process may use where the device computes on them: a worker's
// operators take one core, but for the largest. Else one: a chip's memory is one, a vendor's driver
// may give the chip to one process at a time, and workers would wait for each other there.
uint32_t default_jobs(const Discovery& found);

// Receives the results of cases while they run, on the thread that called run_cases.
struct RunListener {
  // The result of the case |index|, once it is settled. In the order of the cases with one worker;
  // those of several workers mix.
  std::function<void(size_t index, CaseResult)> result;
  // Now and then while there is none.
  std::function<void()> waiting;
  // Whether no further case is wanted. On any thread.
  std::function<bool()> is_over;
};

// Runs |ids|, which are in the order of their levels, and those of level ops in as many workers at
// once as |settings| have jobs: all other levels time, fill or share a device. A case whose worker
// dies or hangs is run once more in a worker of its own, and the rest in a new worker. None is
// begun from |end| on: those have no result. Throws std::system_error where no worker can be
// started.
void run_cases(const RunSettings& settings, const JudgedCases& cases,
               const std::vector<std::string>& ids, std::chrono::steady_clock::time_point end,
               const RunListener& listener);

// The shell command that runs one case again.
std::string repeat_command(const RunSettings& settings, const std::string& id, bool full);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_RUNNER_H_
