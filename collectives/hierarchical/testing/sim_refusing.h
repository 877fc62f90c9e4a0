// SPDX-License-Identifier: Apache-2.0
// Test entry point of the plugin sim_refusing, outside the ABI; found with dlsym in the plugin's
// library.
#ifndef KEEL_COLLECTIVES_HIERARCHICAL_TESTING_SIM_REFUSING_H_
#define KEEL_COLLECTIVES_HIERARCHICAL_TESTING_SIM_REFUSING_H_

#include <keel/abi.h>

extern "C" {
// Makes |slot| ("stream.create", "ccl.init_rank") of the device |ordinal| of any instance return
// |code| from now on. "ccl.info" belongs to no device: its |ordinal|-th call, from 0, returns
// |code|. With several refusals, each call waits until the refusal added before has been returned.
// NULL removes all refusals.
using keel_sim_refuse_fn = void (*)(const char* slot, uint32_t ordinal, keel_status code);
}

#endif  // KEEL_COLLECTIVES_HIERARCHICAL_TESTING_SIM_REFUSING_H_
