// SPDX-License-Identifier: Apache-2.0
// Shared by the cases of level kernels: loads and launches the suite's kernels in a format that the
// device accepts.
#ifndef KEEL_CONFORMANCE_KERNEL_CALLS_H_
#define KEEL_CONFORMANCE_KERNEL_CALLS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "conformance/harness.h"
#include "conformance/kernel_binaries.h"

namespace keel::conformance {

// Returns the set that the device accepts. Ends the case as unsupported if the suite has none.
const KernelSet& choose_set(const Context& context, Where where = Where::current());

// Returns whether the device accepts OpenCL-flavoured SPIR-V.
bool takes_opencl_spirv(const Context& context, Where where = Where::current());

// A kernel of the set and its module. The destructor unloads the module.
class Module {
 public:
  Module(const Context& context, const KernelSet& set, const KernelBinary& binary,
         Where where = Where::current());
  ~Module() { (void)unload(); }
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  keel_module get() const { return module_; }
  keel_kernel kernel() const { return kernel_; }
  keel_status unload();

 private:
  keel_module module_ = {};
  keel_kernel kernel_ = {};
};

struct Extents {
  std::array<uint32_t, 3> grid;
  std::array<uint32_t, 3> block;

  uint64_t threads() const {
    uint64_t count = 1;
    for (size_t axis = 0; axis < 3; ++axis) count *= uint64_t{grid[axis]} * block[axis];
    return count;
  }
};

// Launches |kernel| with one argument per element of |values|. Keel must not read |values| after
// the call returns.
keel_status launch_values(const Stream& stream, keel_kernel kernel, const Extents& extents,
                          std::span<const std::span<const std::byte>> values,
                          uint32_t shared_bytes = 0);

// Launches |kernel|; the arguments are destroyed when launch() returns.
template <typename... Arguments>
keel_status launch(const Stream& stream, keel_kernel kernel, const Extents& extents,
                   Arguments... arguments) {
  const std::array<std::span<const std::byte>, sizeof...(arguments)> values = {
      std::as_bytes(std::span(&arguments, 1))...};
  return launch_values(stream, kernel, extents, values);
}

// Computes result[i] += i + |first| over |words| words. |words| is a multiple of 128, the block
// size that every Vulkan device supports; the grid has at most 65,535 blocks for the same reason.
keel_status launch_number(const Stream& stream, const Module& module, std::byte* result,
                          uint64_t words, uint32_t first);

std::vector<std::byte> bytes_of(const void* data, uint64_t size);
// Returns |words| words with the values i + |first|.
std::vector<std::byte> numbers(uint64_t words, uint32_t first);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_KERNEL_CALLS_H_
