// SPDX-License-Identifier: Apache-2.0
// What the runner and a worker process say to each other. The request is one JSON object on the
// worker's standard input, which is closed before a plugin is loaded; the answers are packets
// (packets.h) on descriptor 3: observations, and JSON objects.
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

// No cases: describe the target.
struct WorkerRequest {
  PluginChoice choice;
  std::string path;    // of the plugin file, for cases on its tables
  uint64_t token = 0;  // of the answers
  uint64_t seed = 42;
  uint32_t timeout_seconds = 20;
  // To find out what a plugin dies of: each observation is sent at once, and the validation layer
  // notes which calls are in progress.
  bool traced = false;
  // None of them is begun from then on: of the steady clock, which all processes share.
  std::chrono::steady_clock::time_point end = std::chrono::steady_clock::time_point::max();
  std::vector<std::string> cases;
};

std::string to_text(const WorkerRequest& request);
// False when |text| is no request.
bool from_text(const std::string& text, WorkerRequest* out_request);

// How the body of a case came to its end in the worker. It is no verdict: that is the runner's.
enum class BodyEnd : uint8_t {
  kReturned,
  kFailed,       // a check did not hold there
  kUnsupported,  // what it needs is not there
};

// One message of a worker's; the members that its type has are set.
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

// The answers in JSON.
std::string target_text(const Found& found);
std::string begin_text(const std::string& id);
std::string end_text(const std::string& id, BodyEnd how, const std::string& text, double seconds);
std::string error_text(const std::string& text, bool usage);
std::string done_text();
// False when |text| is no answer.
bool from_text(const std::string& text, WorkerAnswer* out_answer);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_PROTOCOL_H_
