// SPDX-License-Identifier: Apache-2.0
// The validation layer: between core and the plugins it checks both sides of the ABI,
// and it remembers where things were made. Off, it costs a look at one flag where
// plugins are loaded and handles are made, and nothing on the way to a plugin.
#ifndef KEEL_CORE_VALIDATION_VALIDATION_H_
#define KEEL_CORE_VALIDATION_VALIDATION_H_

#include <keel/keel.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "core/status.h"

namespace keel::validation {

extern std::atomic<bool> g_enabled;

inline bool enabled() {
  return g_enabled.load(std::memory_order_relaxed);
}

// Turns the layer on or off for the runtime that is about to start: |options|->validate, else
// KEEL_VALIDATE=0|1. A failure names the setting that is neither.
Status configure(const keel_init_options* options);

// At the end of the runtime, when its devices are closed.
void finish();

// Logs |text| as an error, "validation: ..." in front, and counts it. The first 1,000
// of a process are logged, the rest counted. The caller holds no lock of the layer: the
// log may go to a callback of the user's.
void report_problem(const std::string& text);
// Problems of this process so far.
uint64_t problem_count();

// |plugin| with every call checked on its way in and out, for the backend |name|; what
// it returns lives as long as the process. Every handle it hands out is the layer's own.
const keel_plugin* checked_plugin(const keel_plugin* plugin, const std::string& name);

}  // namespace keel::validation

#endif  // KEEL_CORE_VALIDATION_VALIDATION_H_
