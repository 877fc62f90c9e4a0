// SPDX-License-Identifier: Apache-2.0
// As ../level_zero_library.cc, but the SPIR-V itself runs, by PoCL.
#include "emulator/simt/library.h"

#include <vector>

#include "emulator/simt/machine.h"
#include "emulator/simt/pocl/pocl.h"
#include "kernels/gpu/level_zero/spirv_image.h"

namespace keel::emulator::simt {
namespace {

Outcome run(const Kernel& kernel, const Grid& grid, const void* arguments, AddressSpace& memory,
            std::string* out_error) {
  return Pocl::get().run(kernel, grid, arguments, memory, out_error);
}

std::vector<Library> find_families() {
  std::vector<Library> families;
  for (const keel::simt::SpirvImage& image : keel::simt::spirv_images()) {
    families.push_back(
        {image.family, image.bytes.data(), image.bytes.size(), Registration::find, run});
  }
  return families;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const Libraries* keel_simt_libraries() {
  static const std::vector<Library>& families = *new std::vector<Library>(find_families());
  static const Libraries libraries = {sizeof(Library), families.size(), families.data()};
  return &libraries;
}

}  // namespace keel::emulator::simt
