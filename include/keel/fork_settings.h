// SPDX-License-Identifier: Apache-2.0
/* Extension of keel_instance_settings: what a forked child sees of a device's memory. Core chains
 * the struct behind the settings of every instance; a plugin whose memory the child would not share
 * skips it, as any unknown extension. */
#ifndef KEEL_FORK_SETTINGS_H_
#define KEEL_FORK_SETTINGS_H_

#include <keel/abi.h>

enum { KEEL_STRUCT_FORK_SETTINGS = 32 };

typedef struct keel_fork_settings {
  keel_header header;
  uint32_t fork_memory; /* KEEL_FORK_* of keel.h: 0 private, 1 unmapped, 2 shared */
  uint32_t reserved;
} keel_fork_settings;

#endif /* KEEL_FORK_SETTINGS_H_ */
