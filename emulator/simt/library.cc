// SPDX-License-Identifier: Apache-2.0
#include "emulator/simt/library.h"

#include <vector>

#include "emulator/simt/machine.h"
#include "kernels/gpu/image.h"

// The function with the images for which the library stands.
#ifndef KEEL_SIMT_HOST_IMAGES
#define KEEL_SIMT_HOST_IMAGES cuda_images
#endif

namespace keel::emulator::simt {
namespace {

Outcome run(const Kernel& kernel, const Grid& grid, const void* arguments, AddressSpace& memory,
            std::string* out_error) {
  return Machine(kernel, grid, arguments, memory).run(out_error);
}

std::vector<Library> find_families() {
  std::vector<Library> families;
  for (const keel::simt::Image& image : keel::simt::KEEL_SIMT_HOST_IMAGES()) {
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
