// SPDX-License-Identifier: Apache-2.0
#include "emulator/simt/library.h"

#include "backends/simt/image.h"
#include "emulator/simt/machine.h"

namespace keel::emulator::simt {
namespace {

Outcome run(const Kernel& kernel, const Grid& grid, const void* arguments, AddressSpace& memory,
            std::string* out_error) {
  return Machine(kernel, grid, arguments, memory).run(out_error);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const Library* keel_simt_library() {
  static const Library library = {sizeof(Library), keel::simt::cuda_image().data(),
                                  keel::simt::cuda_image().size(), Registration::find, run};
  return &library;
}

}  // namespace keel::emulator::simt
