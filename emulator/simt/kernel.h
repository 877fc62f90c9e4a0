// SPDX-License-Identifier: Apache-2.0
// A kernel compiled for the host, and the data types of its launch.
#ifndef KEEL_EMULATOR_SIMT_KERNEL_H_
#define KEEL_EMULATOR_SIMT_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace keel::emulator::simt {

struct Kernel {
  const char* family;  // family of the image that contains the kernel
  const char* name;
  uint32_t argument_bytes;  // size of the kernel's one argument struct
  uint32_t threads;         // per block
  void (*invoke)(const void* arguments);
  const Kernel* next;  // see Registration
};

// A contiguous block of device memory.
struct Extent {
  uint64_t begin = 0;
  uint64_t size = 0;
  std::byte* host = nullptr;  // host address of the first byte
};

// The memory that kernels of one launch may access.
class AddressSpace {
 public:
  virtual ~AddressSpace() = default;
  // Returns the extent that contains |address|; the extent stays valid until the launch ends.
  // Returns false, with the nearest block in |*out_why|, if no extent does.
  virtual bool find(uint64_t address, Extent* out_extent, std::string* out_why) = 0;
};

enum class Outcome : uint8_t {
  kDone,
  kIllegalAddress,  // an invalid or misaligned access
  kFailed,          // a race, or a barrier that not all threads reach
  kOutOfMemory,     // no memory for stacks
};

struct Grid {
  uint32_t x, y, z;  // blocks
};

}  // namespace keel::emulator::simt

#endif  // KEEL_EMULATOR_SIMT_KERNEL_H_
