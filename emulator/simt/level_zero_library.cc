// SPDX-License-Identifier: Apache-2.0
// As library.cc, in place of the kernels' SPIR-V.
#include "emulator/simt/families.h"
#include "emulator/simt/library.h"
#include "kernels/gpu/level_zero/spirv_image.h"

namespace keel::emulator::simt {

extern "C" __attribute__((visibility("default"))) const Libraries* keel_simt_libraries() {
  return libraries_of(keel::simt::spirv_images(), run_on_machine);
}

}  // namespace keel::emulator::simt
