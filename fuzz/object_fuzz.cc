// SPDX-License-Identifier: Apache-2.0
// Shared objects of the caller: what the CPU backend looks at before the loader maps them.
// The loader itself, which runs what it is given, is not for random bytes.
#include "backends/cpu/shared_object.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  keel::cpu::find_defect(reinterpret_cast<const char*>(data), size);
  return 0;
}
