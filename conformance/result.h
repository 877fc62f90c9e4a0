// SPDX-License-Identifier: Apache-2.0
// Outcomes of cases, and the certification of levels derived from them.
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
  kUnsupported,  // no such capability, or the machine lacks a resource
  kWaived,       // failed, crashed or timed out, but a waiver allows it
  kCrash,        // the worker process died
  kTimeout,      // the runner killed the worker at the deadline
};
inline constexpr size_t kOutcomeCount = 6;

// Returns "pass", "fail", ...
const char* outcome_name(Outcome outcome);
std::optional<Outcome> find_outcome(std::string_view name);
// Returns true for kFail, kCrash and kTimeout.
bool is_failure(Outcome outcome);

// The evidence behind a result. The runner computes the expected bytes and compares; for statuses,
// values and times the runner must trust the worker.
struct Evidence {
  uint64_t bytes = 0;
  uint64_t words = 0;  // statuses, texts, values and times
};

struct CaseResult {
  std::string id;
  Outcome outcome = Outcome::kPass;
  double seconds = 0;
  std::string message;  // the reason, for every outcome but a plain pass
  Evidence evidence{};
  std::optional<Waiver> waiver{};  // that apply_waivers() found for the case
};

// Turns the failures that |waivers| allow into kWaived, and a pass with a waiver into a failure,
// because the waiver should be removed. Appends a message to |messages| for each unused waiver.
void apply_waivers(const Waivers& waivers, std::vector<CaseResult>* results,
                   std::vector<std::string>* messages);

struct LevelSummary {
  Level level = Level::kNull;
  std::array<uint32_t, kOutcomeCount> counts = {};
  double seconds = 0;
  bool certified = false;
  std::string why_not;  // set if the level is not certified

  uint32_t count(Outcome outcome) const { return counts[static_cast<size_t>(outcome)]; }
};

// The parts of a run's request that affect certification.
struct Selection {
  std::vector<Level> levels;  // to be summarised
  bool filtered = false;      // some cases of the levels were excluded: nothing is certified
  std::string no_device;      // why there is no device: levels above null did not run
  uint64_t capabilities = 0;  // of the device
  std::string incomplete{};   // why some cases did not run: nothing is certified
};

// Returns one summary per level of the selection. A level is certified when the device has its
// mandatory capabilities, at least one case passed, none failed, none was filtered out, and the run
// is complete.
std::vector<LevelSummary> summarise(const std::vector<CaseResult>& results,
                                    const Selection& selection);

// Returns whether any case failed.
bool any_failure(const std::vector<CaseResult>& results);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_RESULT_H_
