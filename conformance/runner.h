// SPDX-License-Identifier: Apache-2.0
// Runs cases in worker processes, and attributes the death of a worker to a case.
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
  std::string path;               // of the plugin file, once discovered
  // Workers that run cases of level ops in parallel; 0: default_jobs() of the discovery.
  uint32_t jobs = 0;
};

// A worker's description of the target.
struct Discovery {
  Found found;
  std::shared_ptr<const JudgedCases> cases;  // NULL if discovery failed
  std::string error;                         // why discovery failed
  bool usage = false;                        // the caller's mistake: the backend does not exist
  Outcome outcome = Outcome::kFail;          // of loading the plugin, if |error| is set
};

Discovery discover(const RunSettings& settings);

// Returns one worker per usable core of this process if the device computes on the host: a worker's
// operators use one core, except for the largest. Otherwise returns 1: workers share a chip's
// memory, a vendor's driver may grant the chip to one process at a time, and workers would wait for
// each other there.
uint32_t default_jobs(const Discovery& found);

// Returns the seconds after which a case is killed, for |runnable| threads on average on |cores|
// cores: 20, and up to 60 above two threads a core. Waits of a case last a quarter of that. With
// nine threads a core, 12 additions on an emulated chip, a processor-second, took longer than 5 s.
uint32_t timeout_for_load(double runnable, uint32_t cores);
// timeout_for_load() of the last minute on this machine.
uint32_t default_timeout_seconds();

// Receives results while cases run, on the thread that called run_cases (except is_over).
struct RunListener {
  // Receives the final result of the case |index|. Results arrive in case order with one worker,
  // and interleaved with several.
  std::function<void(size_t index, CaseResult)> result;
  // Called periodically while no result arrives.
  std::function<void()> waiting;
  // Returns whether to begin no further case. Called on any thread.
  std::function<bool()> is_over;
};

// Runs |ids|, which are in the order of their levels. Only cases of level ops run in
// |settings.jobs| workers in parallel, because the cases of all other levels time, fill or share a
// device. If a worker dies or hangs, its current case runs once more in a worker of its own, and
// the remaining cases run in a new worker. No case begins from |end| on; skipped cases have no
// result. Throws std::system_error if no worker can be started.
void run_cases(const RunSettings& settings, const JudgedCases& cases,
               const std::vector<std::string>& ids, std::chrono::steady_clock::time_point end,
               const RunListener& listener);

// Returns the options that name the device: "--backend cuda --emulated".
std::string choice_options(const PluginChoice& choice);
// Returns the shell command that repeats one case.
std::string repeat_command(const RunSettings& settings, const std::string& id, bool full);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_RUNNER_H_
