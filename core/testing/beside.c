// SPDX-License-Identifier: Apache-2.0
/* The library that needs_beside_plugin.c finds through $ORIGIN. */
#include <keel/abi.h>

KEEL_EXPORT const char* keel_test_beside(void);
KEEL_EXPORT const char* keel_test_beside(void) {
  return "a library beside the plugin";
}
