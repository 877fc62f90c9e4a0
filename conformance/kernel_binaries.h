// SPDX-License-Identifier: Apache-2.0
// The kernels of level kernels in every supported binary format: the suite's own, or a plugin
// vendor's.
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
  std::string name;  // of the kernel in |module|

  bool exists() const { return !module.empty(); }
};

// The same kernels in one format. kernels/kernels.c defines the kernels, kernels/twin.c the kernel
// twin.
struct KernelSet {
  keel_binary_format format = KEEL_BINARY_SPIRV;
  std::string format_name;  // "SPIR-V for Vulkan"
  // A module declares the number of its kernels' arguments and the size of each.
  bool knows_arguments = false;
  KernelBinary axpy;
  KernelBinary number;
  KernelBinary twin;  // named like number, if the format permits that in two modules
  KernelBinary values;
  KernelBinary places;
  KernelBinary shared;  // absent if launches take no dynamic_shared_bytes
  // Sizes of the arguments of values, without the first argument.
  std::vector<uint32_t> value_bytes;
  // dynamic_shared_bytes that every device of the format supports per block.
  uint32_t shared_bytes = 0;
  // Blocks along each axis of a grid, and threads along x and y of a block, that every device
  // supports.
  uint32_t grid_blocks = 0;
  uint32_t block_threads = 0;
  // A module declares the number, but not the size of each argument.
  bool knows_only_count = false;

  bool knows_argument_count() const { return knows_arguments || knows_only_count; }
};

// Returns the sets of use_kernel_folder(), or else the suite's own.
std::span<const KernelSet> kernel_sets();
bool has_own_kernels();  // whether the suite has kernels of its own

// Replaces the suite's kernels by those listed in |folder|/kernels.json until the process ends;
// docs/conformance.md defines the file format. On a read error returns false and puts a sentence in
// |error|. Call it before other threads start.
bool use_kernel_folder(const std::string& folder, std::string* error);

// Returns an OpenCL-flavoured SPIR-V module with one empty kernel. A device that accepts the module
// and rejects a Vulkan-flavoured one is not a Vulkan device.
std::span<const std::byte> opencl_spirv();

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_KERNEL_BINARIES_H_
