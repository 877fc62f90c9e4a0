// SPDX-License-Identifier: Apache-2.0
/* The C headers alone, in plain C11. */
#include <keel/abi.h>
#include <keel/cpu_kernel.h>
#include <keel/keel.h>

int keel_headers_compile_as_c11(void) {
  keel_device_info info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
  keel_device host = KEEL_HOST;
  return info.header.size == sizeof(keel_device_info) && host.id == 0;
}
