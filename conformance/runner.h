// SPDX-License-Identifier: Apache-2.0
// Runs cases in worker processes, and finds out whose fault it was when one dies.
#ifndef KEEL_CONFORMANCE_RUNNER_H_
#define KEEL_CONFORMANCE_RUNNER_H_

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "conformance/environment.h"
#include "conformance/protocol.h"
#include "conformance/result.h"

namespace keel::conformance {

struct RunSettings {
  PluginChoice choice;
  uint64_t seed = 42;
  uint32_t timeout_seconds = 20;  // of each case
  std::string path;               // of the plugin file, once it is discovered
};

// What a worker says there is.
struct Discovery {
  Target target;
  std::vector<ListedCase> cases;
  std::string error;                 // why there is nothing
  bool usage = false;                // the error is the caller's: no such backend
  Outcome outcome = Outcome::kFail;  // of loading the plugin, where |error| is not empty
};

Discovery discover(const RunSettings& settings);

// Who hears of the cases while they run.
struct RunListener {
  // Each result, in the order of the cases, once it is settled.
  std::function<void(CaseResult)> result;
  // Now and then while there is none.
  std::function<void()> waiting;
};

// Runs |ids|, which are in the order of their levels. A case whose worker dies or hangs is run
// once more alone, and the rest in a new worker. None is begun from |end| on: those have no result.
void run_cases(const RunSettings& settings, const std::vector<std::string>& ids,
               std::chrono::steady_clock::time_point end, const RunListener& listener);

// The shell command that runs one case again.
std::string repeat_command(const RunSettings& settings, const std::string& id, bool full);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_RUNNER_H_
