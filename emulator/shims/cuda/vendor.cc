// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/cuda/vendor.h"

namespace keel::emulator::cuda {

const Vendor kVendor = {
    "CUDA", "KEEL_EMULATED_CUDA", 13000, 99999, 32, 0xfffe, [](uint64_t /*warp*/) {
      return "libkeel_simt_host.so";
    }};

}  // namespace keel::emulator::cuda
