// SPDX-License-Identifier: Apache-2.0
// The lines between the runner and a worker process. The request is one JSON object on
// the worker's standard input; the answers are one JSON object a line on descriptor 3,
// out of reach of whatever a plugin prints.
//
//   {"type": "target", "target": {...}, "on_host": false,
//    "cases": [{"id": "...", "full": false}, ...]}
//   {"type": "begin", "id": "core/copy/many"}
//   {"type": "end", "id": "core/copy/many", "outcome": "pass", "message": "", "seconds": 0.1}
//   {"type": "error", "text": "...", "usage": true}     nothing could be run
//   {"type": "done"}                                    after Keel was shut down
#ifndef KEEL_CONFORMANCE_PROTOCOL_H_
#define KEEL_CONFORMANCE_PROTOCOL_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "conformance/environment.h"
#include "conformance/result.h"

namespace keel::conformance {

inline constexpr int kAnswerDescriptor = 3;
inline constexpr const char* kWorkerCommand = "conform-worker";

// No cases: describe the target and list what there is.
struct WorkerRequest {
  PluginChoice choice;
  std::string path;  // of the plugin file, for cases on its tables
  uint64_t seed = 42;
  uint32_t timeout_seconds = 20;
  // None of them is begun from then on: of the steady clock, which all processes share.
  std::chrono::steady_clock::time_point end = std::chrono::steady_clock::time_point::max();
  std::vector<std::string> cases;
};

std::string to_text(const WorkerRequest& request);
// False when |text| is no request.
bool from_text(const std::string& text, WorkerRequest* out_request);

struct ListedCase {
  std::string id;
  bool full = false;  // only in the full profile
};

// One line of a worker's; the members that its type has are set.
struct WorkerAnswer {
  enum class Type : uint8_t { kTarget, kBegin, kEnd, kError, kDone };

  Type type = Type::kDone;
  Target target;
  bool on_host = false;  // the device under test computes on the host's cores
  std::vector<ListedCase> cases;
  CaseResult result;  // of kBegin, the id alone
  std::string text;
  bool usage = false;
};

// False when |line| is no answer: a plugin that writes to descriptor 3 is heard here too.
bool from_text(const std::string& line, WorkerAnswer* out_answer);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_PROTOCOL_H_
