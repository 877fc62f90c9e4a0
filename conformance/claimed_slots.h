// SPDX-License-Identifier: Apache-2.0
// The slots that a plugin needs for each capability of its devices.
#ifndef KEEL_CONFORMANCE_CLAIMED_SLOTS_H_
#define KEEL_CONFORMANCE_CLAIMED_SLOTS_H_

#include <keel/abi.h>

#include <cstdint>
#include <string>

namespace keel::conformance {

// Returns whether any of |capabilities| needs slots.
bool needs_slots(uint64_t capabilities);

// Returns one sentence for each of |capabilities| whose slots |plugin| lacks, such as
// "NATIVE_GATE is claimed without stream.gate_open"; empty if all are there.
std::string claims_without_slots(const keel_plugin& plugin, uint64_t capabilities);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_CLAIMED_SLOTS_H_
