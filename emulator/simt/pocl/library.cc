// SPDX-License-Identifier: Apache-2.0
// As ../level_zero_library.cc, but the SPIR-V itself runs, by PoCL.
#include "emulator/simt/library.h"

#include "emulator/simt/families.h"
#include "emulator/simt/pocl/pocl.h"
#include "kernels/gpu/level_zero/spirv_image.h"

namespace keel::emulator::simt {
namespace {

Outcome run(const Kernel& kernel, const Grid& grid, const void* arguments, AddressSpace& memory,
            std::string* out_error) {
  return Pocl::get().run(kernel, grid, arguments, memory, out_error);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const Libraries* keel_simt_libraries() {
  return libraries_of(keel::simt::spirv_images(), run);
}

}  // namespace keel::emulator::simt
