// SPDX-License-Identifier: Apache-2.0
// What tests ask of the fake plugin beyond the ABI, found with dlsym in its library.
#ifndef KEEL_CORE_TESTING_FAKE_PLUGIN_H_
#define KEEL_CORE_TESTING_FAKE_PLUGIN_H_

extern "C" {
// While |paused| is not 0, no stream of any instance begins another piece of work. Of
// sim_paused too, which has no other function of these.
using keel_fake_pause_fn = void (*)(int paused);
// How often core broke a rule of abi.h so far, with the last one in |*out_text|: an
// event recorded or destroyed while in use, an object that outlived its device.
using keel_fake_violations_fn = int (*)(const char** out_text);
}

#endif  // KEEL_CORE_TESTING_FAKE_PLUGIN_H_
