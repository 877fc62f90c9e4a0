// SPDX-License-Identifier: Apache-2.0
// What a library of kernels that were compiled for the host shows to a face. Its kernels stand for
// those of |image|: a face that is asked to load that very image runs these.
#ifndef KEEL_EMULATOR_SIMT_LIBRARY_H_
#define KEEL_EMULATOR_SIMT_LIBRARY_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "emulator/simt/kernel.h"

namespace keel::emulator::simt {

struct Library {
  uint64_t size;  // of this struct
  const std::byte* image;
  uint64_t image_bytes;
  // NULL where there is none.
  const Kernel* (*find)(const char* name);
  // See Machine::run.
  Outcome (*run)(const Kernel& kernel, const Grid& grid, const void* arguments,
                 AddressSpace& memory, std::string* out_error);
};
// A function without arguments that returns a const Library*, exported under this name.
inline constexpr char kLibrarySymbol[] = "keel_simt_library";

}  // namespace keel::emulator::simt

#endif  // KEEL_EMULATOR_SIMT_LIBRARY_H_
