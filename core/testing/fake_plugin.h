// SPDX-License-Identifier: Apache-2.0
// The fake plugin's functions for tests beyond the ABI, found with dlsym in its library.
#ifndef KEEL_CORE_TESTING_FAKE_PLUGIN_H_
#define KEEL_CORE_TESTING_FAKE_PLUGIN_H_

extern "C" {
// While |paused| is not 0, no stream of any instance begins another piece of work. sim_paused has
// this function too, and none of the others.
using keel_fake_pause_fn = void (*)(int paused);
// Returns the number of violations of abi.h by core so far, and the last one in |*out_text|: an
// event recorded or destroyed while in use, an object that outlived its device.
using keel_fake_violations_fn = int (*)(const char** out_text);
}

#endif  // KEEL_CORE_TESTING_FAKE_PLUGIN_H_
