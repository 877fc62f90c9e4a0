// SPDX-License-Identifier: Apache-2.0
// Fuzzes certificates. Their digest is checked only after everything else.
#include "conformance/certificate.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  keel::conformance::Certificate certificate;
  std::string error;
  const bool read = keel::conformance::read_certificate(text, &certificate, &error);
  if (read != error.empty()) __builtin_trap();
  return 0;
}
