// SPDX-License-Identifier: Apache-2.0
// What came of the cases, and what that makes of the levels.
#ifndef KEEL_CONFORMANCE_RESULT_H_
#define KEEL_CONFORMANCE_RESULT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "conformance/levels.h"
#include "conformance/waivers.h"

namespace keel::conformance {

enum class Outcome : uint8_t {
  kPass,
  kFail,
  kUnsupported,  // not claimed, or needs what the machine does not have
  kWaived,       // failed, crashed or timed out, as a waiver allows
  kCrash,        // the worker process died
  kTimeout,      // the worker process was killed at the deadline
};
inline constexpr size_t kOutcomeCount = 6;

// "pass", "fail", ...
const char* outcome_name(Outcome outcome);
std::optional<Outcome> find_outcome(std::string_view name);
// Fail, crash and timeout.
bool is_failure(Outcome outcome);

// What a result rests on. The runner compares bytes with what it knows; statuses, values and times
// it has to take from the worker.
struct Evidence {
  uint64_t bytes = 0;
  uint64_t words = 0;  // statuses, texts, values and times
};

struct CaseResult {
  std::string id;
  Outcome outcome = Outcome::kPass;
  double seconds = 0;
  std::string message;  // why, for everything but a plain pass
  Evidence evidence{};
};

// Turns the failures that |waivers| allow into kWaived, and a pass that has a waiver
// into a failure: the waiver should go. Messages of waivers that no result used are
// appended to |messages|.
void apply_waivers(const Waivers& waivers, std::vector<CaseResult>* results,
                   std::vector<std::string>* messages);

struct LevelSummary {
  Level level = Level::kNull;
  std::array<uint32_t, kOutcomeCount> counts = {};
  double seconds = 0;
  bool certified = false;
  std::string why_not;  // when it is not certified

  uint32_t count(Outcome outcome) const { return counts[static_cast<size_t>(outcome)]; }
};

// What was asked of a run, as far as certification depends on it.
struct Selection {
  std::vector<Level> levels;  // to be summarised
  bool filtered = false;      // some cases of the levels were left out: nothing is certified
  std::string no_device;      // why there is no device: levels above null did not run
  uint64_t claims = 0;        // of the device
  std::string incomplete{};   // why not all cases ran: nothing is certified
};

// One summary for each level of the selection. A level is certified when its mandatory
// claims are made, at least one case passed, none failed, none was filtered out, and the run is
// complete.
std::vector<LevelSummary> summarise(const std::vector<CaseResult>& results,
                                    const Selection& selection);

// Whether any case failed.
bool any_failure(const std::vector<CaseResult>& results);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_RESULT_H_
