// SPDX-License-Identifier: Apache-2.0
// The interface between a shim and a shared object of kernels compiled for the host. The kernels of
// a family replace the kernels of its |image|: asked to load this very image, a shim runs the host
// kernels.
#ifndef KEEL_EMULATOR_SIMT_LIBRARY_H_
#define KEEL_EMULATOR_SIMT_LIBRARY_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "emulator/simt/kernel.h"

namespace keel::emulator::simt {

// The kernels of a family.
struct Library {
  const char* family;
  const std::byte* image;
  uint64_t image_bytes;
  // NULL if there is no such kernel.
  const Kernel* (*find)(const char* family, const char* name);
  // See Machine::run.
  Outcome (*run)(const Kernel& kernel, const Grid& grid, const void* arguments,
                 AddressSpace& memory, std::string* out_error);
};

struct Libraries {
  uint64_t library_size;  // sizeof(Library)
  uint64_t count;
  const Library* first;
};
// The name of an exported function without arguments that returns a const Libraries*.
inline constexpr char kLibrariesSymbol[] = "keel_simt_libraries";

}  // namespace keel::emulator::simt

#endif  // KEEL_EMULATOR_SIMT_LIBRARY_H_
