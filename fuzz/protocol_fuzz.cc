// SPDX-License-Identifier: Apache-2.0
// Fuzzes a worker process's input from the runner.
#include "conformance/protocol.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using keel::conformance::WorkerRequest;
  WorkerRequest request;
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (!keel::conformance::from_text(text, &request)) return 0;
  // An accepted request survives a round trip.
  WorkerRequest again;
  if (!keel::conformance::from_text(keel::conformance::to_text(request), &again)) __builtin_trap();
  if (again.cases != request.cases || again.seed != request.seed) __builtin_trap();
  return 0;
}
