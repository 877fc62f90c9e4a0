// SPDX-License-Identifier: Apache-2.0
// The kernels of level kernels, in the formats that they can be built for: those that the suite
// brings along, or those of a plugin's vendor.
#ifndef KEEL_CONFORMANCE_KERNEL_BINARIES_H_
#define KEEL_CONFORMANCE_KERNEL_BINARIES_H_

#include <keel/keel.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace keel::conformance {

struct KernelBinary {
  std::span<const std::byte> module;
  std::string name;  // of the kernel in it

  bool exists() const { return !module.empty(); }
};

// The same kernels in one format; what each does is in kernels/kernels.c, and of twin in
// kernels/twin.c.
struct KernelSet {
  keel_binary_format format = KEEL_BINARY_SPIRV;
  std::string format_name;  // "SPIR-V for Vulkan"
  // A module says how many arguments of which size its kernels take.
  bool knows_arguments = false;
  KernelBinary axpy;
  KernelBinary number;
  KernelBinary twin;  // of the same name as number, where the format lets two modules have that
  KernelBinary values;
  KernelBinary places;
  KernelBinary shared;  // not of a format whose launches take no dynamic_shared_bytes
  // Sizes of the arguments of values, but for the first.
  std::vector<uint32_t> value_bytes;
  // dynamic_shared_bytes that each device of the format gives a block.
  uint32_t shared_bytes = 0;
  // Blocks along each axis of a grid, and threads along x and y of a block, that each takes.
  uint32_t grid_blocks = 0;
  uint32_t block_threads = 0;
};

// Those of use_kernel_folder(), or else the suite's own.
std::span<const KernelSet> kernel_sets();
bool has_own_kernels();  // of the suite

// Takes the kernels that the file kernels.json in |folder| lists in the place of the suite's own,
// until the process ends; docs/conformance.md has its form. False, and a sentence in |error|, where
// it cannot be read. Call it before there are other threads.
bool use_kernel_folder(const std::string& folder, std::string* error);

// A SPIR-V module of OpenCL's kind, with one kernel that does nothing: what takes it and refuses
// one of Vulkan's kind is no Vulkan device.
std::span<const std::byte> opencl_spirv();

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_KERNEL_BINARIES_H_
