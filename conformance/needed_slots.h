// SPDX-License-Identifier: Apache-2.0
// The slots that every plugin needs, and those for each capability of its devices.
#ifndef KEEL_CONFORMANCE_NEEDED_SLOTS_H_
#define KEEL_CONFORMANCE_NEEDED_SLOTS_H_

#include <keel/abi.h>

#include <cstdint>
#include <string>

namespace keel::conformance {

// Returns whether any of |capabilities| needs slots.
bool needs_slots(uint64_t capabilities);

// Returns the names of the slots that every plugin needs and |plugin| lacks, such as
// "stream.copy, memory.free"; empty if all are there.
std::string missing_slots(const keel_plugin& plugin);

// Returns one sentence for each of |capabilities| whose slots |plugin| lacks, such as
// "NATIVE_GATE is claimed without stream.gate_open"; empty if all are there.
std::string claims_without_slots(const keel_plugin& plugin, uint64_t capabilities);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_NEEDED_SLOTS_H_
