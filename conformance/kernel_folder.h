// SPDX-License-Identifier: Apache-2.0
// A vendor's binaries of the suite's kernels.
#ifndef KEEL_CONFORMANCE_KERNEL_FOLDER_H_
#define KEEL_CONFORMANCE_KERNEL_FOLDER_H_

#include <string>
#include <vector>

#include "conformance/kernel_binaries.h"

namespace keel::conformance {

// The sets that |folder|/kernels.json lists, whose files stay in memory until the process ends.
// False, and a sentence in |error|, where something is missing or makes no sense.
bool read_kernel_folder(const std::string& folder, std::vector<KernelSet>* out_sets,
                        std::string* error);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_KERNEL_FOLDER_H_
