// SPDX-License-Identifier: Apache-2.0
#include "emulator/simt/library.h"

#include "emulator/simt/families.h"
#include "kernels/gpu/image.h"

// The function with the images for which the library stands.
#ifndef KEEL_SIMT_HOST_IMAGES
#define KEEL_SIMT_HOST_IMAGES cuda_images
#endif

namespace keel::emulator::simt {

extern "C" __attribute__((visibility("default"))) const Libraries* keel_simt_libraries() {
  return libraries_of(keel::simt::KEEL_SIMT_HOST_IMAGES(), run_on_machine);
}

}  // namespace keel::emulator::simt
