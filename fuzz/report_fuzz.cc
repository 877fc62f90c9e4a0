// SPDX-License-Identifier: Apache-2.0
// Fuzzes JSON reports of conformance runs, as the support table reads them.
#include <sys/mman.h>
#include <unistd.h>

#include "conformance/support_table.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int file = memfd_create("report", MFD_CLOEXEC);
  if (file < 0) return 0;
  if (write(file, data, size) == static_cast<ssize_t>(size)) {
    keel::conformance::print_support_table({"/proc/self/fd/" + std::to_string(file)});
  }
  close(file);
  return 0;
}
