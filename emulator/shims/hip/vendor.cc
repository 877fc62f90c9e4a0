// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/cuda/vendor.h"

namespace keel::emulator::cuda {

const Vendor kVendor = {
    "HIP", "KEEL_EMULATED_HIP", 50221153, 99999999, 64, 0xfff9, [](uint64_t warp) {
      return warp == 32 ? "libkeel_simt_host_32.so" : "libkeel_simt_host_64.so";
    }};

}  // namespace keel::emulator::cuda
