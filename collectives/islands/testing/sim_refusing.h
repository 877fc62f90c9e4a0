// SPDX-License-Identifier: Apache-2.0
// The function of the plugin sim_refusing beyond the ABI, found with dlsym in its library.
#ifndef KEEL_COLLECTIVES_ISLANDS_TESTING_SIM_REFUSING_H_
#define KEEL_COLLECTIVES_ISLANDS_TESTING_SIM_REFUSING_H_

#include <keel/abi.h>

extern "C" {
// From now on |slot| ("stream.create", "ccl.init_rank") of the device |ordinal| of any instance
// returns |code|; "ccl.info", which is of no device, on its |ordinal|-th call. Of several refusals
// each waits until the one before has been returned. NULL: none refuses any more.
using keel_sim_refuse_fn = void (*)(const char* slot, uint32_t ordinal, keel_status code);
}

#endif  // KEEL_COLLECTIVES_ISLANDS_TESTING_SIM_REFUSING_H_
