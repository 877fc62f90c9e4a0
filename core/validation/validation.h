// SPDX-License-Identifier: Apache-2.0
// The validation layer: checks both sides of the ABI between core and the plugins, and records
// where objects were created. Off, the layer costs one flag check where plugins are loaded and
// handles are created, and nothing on the way to a plugin.
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

// Turns the layer on or off for the runtime about to start: |options|->validate, else
// KEEL_VALIDATE=0|1. A failure names the setting if its value is neither 0 nor 1.
Status configure(const keel_init_options* options);

// Called at the end of the runtime, once its devices are closed.
void finish();

// Logs |text| as an error, with "validation: ..." in front, and counts the problem. The first 1,000
// problems of a process are logged, the rest only counted. The caller holds no lock of the layer,
// since the log may call a callback of the user.
void report_problem(const std::string& text);
// Returns the number of problems of this process so far.
uint64_t problem_count();

// Returns |plugin| with every call checked on its way in and out, for the backend |name|. The
// result lives as long as the process. Every handle given out is the layer's own.
const keel_plugin* checked_plugin(const keel_plugin* plugin, const std::string& name);

}  // namespace keel::validation

#endif  // KEEL_CORE_VALIDATION_VALIDATION_H_
