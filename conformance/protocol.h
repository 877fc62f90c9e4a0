// SPDX-License-Identifier: Apache-2.0
// The protocol between the runner and a worker process. The request is one JSON object on the
// worker's standard input, which the worker closes before it loads a plugin. The answers are
// packets (packets.h) on descriptor 3: observations and JSON objects.
//
//   {"type": "target", "target": {...}, "device_info": [bytes], "backend_devices": ["cuda:1"],
//    "foreign_devices": ["cpu:0"], "on_host": false}
//   {"type": "begin", "id": "core/copy/many"}
//   {"type": "end", "id": "core/copy/many", "how": "returned", "text": "", "seconds": 0.1}
//   {"type": "error", "text": "...", "usage": true}     nothing could be run
//   {"type": "done"}                                    after Keel was shut down
#ifndef KEEL_CONFORMANCE_PROTOCOL_H_
#define KEEL_CONFORMANCE_PROTOCOL_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "conformance/environment.h"
#include "conformance/packets.h"

namespace keel::conformance {

inline constexpr int kAnswerDescriptor = 3;
inline constexpr const char* kWorkerCommand = "conform-worker";

// The work of one worker. Without cases the worker describes the target.
struct WorkerRequest {
  PluginChoice choice;
  std::string path;    // of the plugin file, for cases on its tables
  uint64_t token = 0;  // of the answers
  uint64_t seed = 42;
  uint32_t timeout_seconds = 20;
  // For diagnosing a crash: the worker sends each observation at once, and the validation layer
  // records the calls in progress.
  bool traced = false;
  // The worker begins no case after this time of the steady clock, which all processes share.
  std::chrono::steady_clock::time_point end = std::chrono::steady_clock::time_point::max();
  std::vector<std::string> cases;
  std::string fault = {};  // of the library under the plugin; empty: none
};

std::string to_text(const WorkerRequest& request);
// Returns false if |text| is not a request.
bool from_text(const std::string& text, WorkerRequest* out_request);

// How the body of a case ended in the worker. The verdict is the runner's.
enum class BodyEnd : uint8_t {
  kReturned,
  kFailed,       // a check in the worker failed
  kUnsupported,  // a required resource or capability is missing
};

// One message of a worker. Only the members of its |type| are set.
struct WorkerAnswer {
  enum class Type : uint8_t { kTarget, kBegin, kObservation, kEnd, kError, kDone };

  Type type = Type::kDone;
  Found found;     // of kTarget
  std::string id;  // of kBegin and kEnd
  BodyEnd how = BodyEnd::kReturned;
  double seconds = 0;
  std::string text;
  bool usage = false;
  Observation observation;
};

// Encode the JSON answers.
std::string target_text(const Found& found);
std::string begin_text(const std::string& id);
// The line that a worker prints when a case begins, in front of the plugin's output.
inline constexpr char kCaseMark[] = "\036case ";  // a record separator
inline std::string case_mark(const std::string& id) {
  return kCaseMark + id + "\n";
}
std::string end_text(const std::string& id, BodyEnd how, const std::string& text, double seconds);
std::string error_text(const std::string& text, bool usage);
std::string done_text();
// Returns false if |text| is not an answer.
bool from_text(const std::string& text, WorkerAnswer* out_answer);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_PROTOCOL_H_
