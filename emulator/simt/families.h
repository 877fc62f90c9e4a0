// SPDX-License-Identifier: Apache-2.0
// The families of kernels that a shared object exports: see library.h.
#ifndef KEEL_EMULATOR_SIMT_FAMILIES_H_
#define KEEL_EMULATOR_SIMT_FAMILIES_H_

#include <string>
#include <vector>

#include "emulator/simt/library.h"
#include "emulator/simt/machine.h"

namespace keel::emulator::simt {

inline Outcome run_on_machine(const Kernel& kernel, const Grid& grid, const void* arguments,
                              AddressSpace& memory, std::string* out_error) {
  return Machine(kernel, grid, arguments, memory).run(out_error);
}

// Returns one family for each of |images|, whose kernels |run| runs. One call a shared object:
// later calls return the first result.
template <typename Images>
const Libraries* libraries_of(const Images& images, decltype(Library::run) run) {
  static const std::vector<Library>& families = *new std::vector<Library>([&] {
    std::vector<Library> found;
    for (const auto& image : images) {
      found.push_back(
          {image.family, image.bytes.data(), image.bytes.size(), Registration::find, run});
    }
    return found;
  }());
  static const Libraries libraries = {sizeof(Library), families.size(), families.data()};
  return &libraries;
}

}  // namespace keel::emulator::simt

#endif  // KEEL_EMULATOR_SIMT_FAMILIES_H_
