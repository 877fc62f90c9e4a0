// SPDX-License-Identifier: Apache-2.0
// A kernel that was compiled for the host, and what it takes to launch one.
#ifndef KEEL_EMULATOR_SIMT_KERNEL_H_
#define KEEL_EMULATOR_SIMT_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace keel::emulator::simt {

struct Kernel {
  const char* family;  // whose image has it
  const char* name;
  uint32_t argument_bytes;  // of the one struct that it takes
  uint32_t threads;         // of a block
  void (*invoke)(const void* arguments);
  const Kernel* next;  // see Registration
};

// Device memory that lies in one piece.
struct Extent {
  uint64_t begin = 0;
  uint64_t size = 0;
  std::byte* host = nullptr;  // where the host finds its first byte
};

// The memory that kernels of one launch may reach.
class AddressSpace {
 public:
  virtual ~AddressSpace() = default;
  // The extent that |address| lies in, which stays until the launch is over. False, with what lies
  // near, where there is none.
  virtual bool find(uint64_t address, Extent* out_extent, std::string* out_why) = 0;
};

enum class Outcome : uint8_t {
  kDone,
  kIllegalAddress,  // an access to what is not there, or not aligned
  kFailed,          // a race, or a barrier that not all threads reach
  kOutOfMemory,     // no stacks
};

struct Grid {
  uint32_t x, y, z;  // blocks
};

}  // namespace keel::emulator::simt

#endif  // KEEL_EMULATOR_SIMT_KERNEL_H_
