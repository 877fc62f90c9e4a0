// SPDX-License-Identifier: Apache-2.0
// Kernels of the caller. Included by keel.hpp, which states the rules for all of its parts.
#ifndef KEEL_MODULE_HPP_
#define KEEL_MODULE_HPP_

#include <keel/keel.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <keel/device.hpp>
#include <keel/error.hpp>
#include <keel/stream.hpp>
#include <span>
#include <string>
#include <type_traits>

namespace keel {
inline namespace v0 {

// Blocks of a grid, or threads of a block. Analogue: dim3.
struct Extent {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;
};

// One kernel of a module, by value; invalid once the module is destroyed.
class Kernel {
 public:
  explicit Kernel(keel_kernel handle) : handle_(handle) {}

  keel_kernel get() const { return handle_; }
  // Enqueues a launch with copies of |arguments|, in the types that the kernel reads: device memory
  // as a pointer, numbers exactly as wide as the kernel's parameters.
  template <typename... Arguments>
  requires(std::is_trivially_copyable_v<Arguments>&&...) void launch(
      const Stream& stream, Extent grid, Extent block, const Arguments&... arguments) const {
    // One entry more than there are arguments: an array has at least one.
    const void* const pointers[] = {&arguments..., nullptr};
    const uint32_t sizes[] = {static_cast<uint32_t>(sizeof(arguments))..., 0};
    keel_launch launch = KEEL_STRUCT_INIT(keel_launch, KEEL_STRUCT_LAUNCH);
    std::ranges::copy(std::array{grid.x, grid.y, grid.z}, launch.grid);
    std::ranges::copy(std::array{block.x, block.y, block.z}, launch.block);
    launch.argument_count = sizeof...(arguments);
    launch.arguments = pointers;
    launch.argument_sizes = sizes;
    check(keel_kernel_launch(stream.get(), handle_, &launch));
  }

 private:
  keel_kernel handle_;
};

// A binary on a device; launches enqueued before may outlive the module. Analogue: CUmodule.
class Module {
 public:
  // Throws KEEL_UNSUPPORTED for a format that the device does not take.
  Module(Device device, keel_binary_format format, std::span<const std::byte> binary) {
    keel_module module;
    check(keel_module_load(device.get(), format, binary.data(), binary.size(), &module));
    handle_ = Handle(module);
  }

  keel_module get() const { return handle_.get(); }
  // Throws KEEL_NOT_FOUND when the module has no kernel of that name.
  Kernel kernel(const std::string& name) const {
    keel_kernel kernel;
    check(keel_kernel_find(get(), name.c_str(), &kernel));
    return Kernel(kernel);
  }

 private:
  using Handle = api_detail::UniqueHandle<keel_module, keel_module_unload>;
  Handle handle_;
};

}  // namespace v0
}  // namespace keel

#endif  // KEEL_MODULE_HPP_
