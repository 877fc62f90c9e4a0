// SPDX-License-Identifier: Apache-2.0
// Failures of the vendor's library under a plugin, on demand.
#ifndef KEEL_CONFORMANCE_LIBRARY_FAULTS_H_
#define KEEL_CONFORMANCE_LIBRARY_FAULTS_H_

#include <string>

#include "conformance/environment.h"

namespace keel::conformance {

// Prefixes of a fault: the library that has it.
inline constexpr char kEmulated[] = "emulated:";  // any chip's, over the emulated chip
inline constexpr char kVulkan[] = "vulkan:";      // Vulkan's loader, see failing_vulkan/

// Returns the prefix of the faults that the library under test can have; empty: none.
std::string failing_library(const Environment& environment);

// Gives the libraries that this process opens |fault|, a prefix and then a fault as
// docs/emulator.md or failing_vulkan/loader.cc has it, beside those that a user set. Call it before
// a plugin loads.
void add_library_fault(const std::string& fault);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_LIBRARY_FAULTS_H_
