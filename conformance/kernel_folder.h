// SPDX-License-Identifier: Apache-2.0
// Reads a vendor's binaries of the suite's kernels.
#ifndef KEEL_CONFORMANCE_KERNEL_FOLDER_H_
#define KEEL_CONFORMANCE_KERNEL_FOLDER_H_

#include <string>
#include <vector>

#include "conformance/kernel_binaries.h"

namespace keel::conformance {

// Reads the sets that |folder|/kernels.json lists; their files stay in memory until the process
// ends. Returns false, with a sentence in |error|, if an entry is missing or invalid.
bool read_kernel_folder(const std::string& folder, std::vector<KernelSet>* out_sets,
                        std::string* error);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_KERNEL_FOLDER_H_
