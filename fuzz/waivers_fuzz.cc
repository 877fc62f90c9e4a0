// SPDX-License-Identifier: Apache-2.0
// Fuzzes files of waivers, and their globs.
#include "conformance/waivers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  keel::conformance::Waivers waivers;
  std::string error;
  const bool read = keel::conformance::parse_waivers(text, "cpu", "2026-11-21", &waivers, &error);
  if (read != error.empty()) __builtin_trap();
  if (read) waivers.find("core/copy/many");
  const size_t half = size / 2;
  // Matching a glob of many stars takes time proportional to the product of both lengths.
  if (size <= 512) keel::conformance::glob_matches(text.substr(0, half), text.substr(half));
  return 0;
}
