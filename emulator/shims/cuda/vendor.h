// SPDX-License-Identifier: Apache-2.0
// Differences between the drivers that are made of the sources here: CUDA's, and HIP's runtime,
// whose functions call these.
#ifndef KEEL_EMULATOR_SHIMS_CUDA_VENDOR_H_
#define KEEL_EMULATOR_SHIMS_CUDA_VENDOR_H_

#include <cstdint>

namespace keel::emulator::cuda {

struct Vendor {
  const char* name;      // in messages to stderr
  const char* variable;  // the environment variable with the settings
  int version;           // the default result of the version's query
  uint64_t most_version;
  uint64_t warp;  // threads of a warp, by default
  // A PCI domain that no host uses, so that an emulated chip is never mistaken for a real one, nor
  // for one of another vendor.
  int pci_domain;
  // The file, beside the library, with the kernels of kernels/gpu compiled for the host.
  const char* (*kernels_file)(uint64_t warp);
};
extern const Vendor kVendor;

}  // namespace keel::emulator::cuda

#endif  // KEEL_EMULATOR_SHIMS_CUDA_VENDOR_H_
