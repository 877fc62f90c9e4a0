// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_CONFORMANCE_NOTED_PLUGIN_H_
#define KEEL_CONFORMANCE_NOTED_PLUGIN_H_

#include <keel/abi.h>

namespace keel::conformance {

// Returns tables that call the slots of |real| and note each call in progress with its arguments
// (core/validation/call_notes.h), for the message of a case in which the process dies. Handles and
// absent slots stay the plugin's own, as do extensions of the tables. Call it once in a process.
const keel_plugin& noted_plugin(const keel_plugin& real);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_NOTED_PLUGIN_H_
