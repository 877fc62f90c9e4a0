// SPDX-License-Identifier: Apache-2.0
// Fuzzes the runner's input from a worker process; a plugin may write to the same stream.
#include <span>
#include <vector>

#include "conformance/protocol.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using keel::conformance::PacketReader;
  using keel::conformance::WorkerAnswer;
  PacketReader reader(0);
  std::vector<PacketReader::Message> messages;
  reader.take(std::as_bytes(std::span(data, size)), &messages);
  WorkerAnswer answer;
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (!keel::conformance::from_text(text, &answer)) return 0;
  const auto type = answer.type;
  const bool names_case = type == WorkerAnswer::Type::kBegin || type == WorkerAnswer::Type::kEnd;
  if (names_case && answer.id.empty()) __builtin_trap();
  return 0;
}
