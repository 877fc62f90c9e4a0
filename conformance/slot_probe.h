// SPDX-License-Identifier: Apache-2.0
// Reads a plugin's tables in a process of its own: a process queries a plugin once, and Keel has
// done so in this one.
#ifndef KEEL_CONFORMANCE_SLOT_PROBE_H_
#define KEEL_CONFORMANCE_SLOT_PROBE_H_

#include <optional>
#include <string>

namespace keel::conformance {

// Subcommand of the program that a probe starts, with the plugin file as argument.
inline constexpr const char* kSlotProbeCommand = "conform-slots";

// Returns whether the plugin file |path| has the slot event_wait; nothing if the other process
// cannot read the tables, or not within ten seconds.
std::optional<bool> has_event_wait(const std::string& path);

// The other process. Returns its exit status: 0 with the slot, 3 without, 1 if the plugin does not
// load.
int slot_probe_main(const std::string& path);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_SLOT_PROBE_H_
