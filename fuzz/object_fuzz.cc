// SPDX-License-Identifier: Apache-2.0
// Fuzzes the CPU backend's check of the caller's shared objects before the loader maps them. The
// loader itself is not fuzzed, because it executes its input.
#include "backends/cpu/runtime/shared_object.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  keel::cpu::find_defect(reinterpret_cast<const char*>(data), size);
  return 0;
}
