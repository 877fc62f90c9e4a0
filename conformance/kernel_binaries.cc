// SPDX-License-Identifier: Apache-2.0
#include "conformance/kernel_binaries.h"

#include <utility>

#include "conformance/kernel_folder.h"

namespace keel::conformance {

namespace {

constexpr uint8_t kSharedObject[] = {
#include "shared_object.inc"
};
constexpr uint8_t kSharedObjectTwin[] = {
#include "shared_object_twin.inc"
};
constexpr uint8_t kPtx[] = {
#include "ptx.inc"
};
constexpr uint8_t kPtxTwin[] = {
#include "ptx_twin.inc"
};
#ifdef KEEL_CONFORMANCE_SPIRV
constexpr uint32_t kAxpy[] = {
#include "axpy.inc"
};
constexpr uint32_t kNumber[] = {
#include "number.inc"
};
constexpr uint32_t kTwin[] = {
#include "twin.inc"
};
constexpr uint32_t kValues[] = {
#include "values.inc"
};
constexpr uint32_t kPlaces[] = {
#include "places.inc"
};
#endif
#ifdef KEEL_CONFORMANCE_OPENCL
constexpr uint8_t kOpenCl[] = {
#include "opencl.inc"
};
constexpr uint8_t kOpenClTwin[] = {
#include "opencl_twin.inc"
};
#endif

// Builds a set whose |module| contains all kernels except twin.
KernelSet whole(keel_binary_format format, const char* format_name, bool knows_arguments,
                std::span<const uint8_t> module, std::span<const uint8_t> twin,
                std::vector<uint32_t> value_bytes, uint32_t shared_bytes) {
  const std::span<const std::byte> bytes = std::as_bytes(module);
  return {format,
          format_name,
          knows_arguments,
          {bytes, "axpy"},
          {bytes, "number"},
          {std::as_bytes(twin), "number"},
          {bytes, "values"},
          {bytes, "places"},
          {bytes, "shared"},
          std::move(value_bytes),
          shared_bytes,
          /*grid_blocks=*/65'535,
          /*block_threads=*/1024};
}

std::vector<KernelSet> own_sets() {
  constexpr uint32_t kPtxSharedBytes = 48 << 10;
  constexpr uint32_t kCpuSharedBytes = 1 << 20;  // keel/cpu_kernel.h
  const std::vector<uint32_t> value_bytes = {1, 2, 4, 8, 16, 40, 3, 4014};
  std::vector<KernelSet> sets;
#ifdef KEEL_CONFORMANCE_SPIRV
  sets.push_back({KEEL_BINARY_SPIRV,
                  "SPIR-V for Vulkan",
                  /*knows_arguments=*/true,
                  {std::as_bytes(std::span(kAxpy)), "main"},
                  {std::as_bytes(std::span(kNumber)), "main"},
                  {std::as_bytes(std::span(kTwin)), "main"},
                  {std::as_bytes(std::span(kValues)), "main"},
                  {std::as_bytes(std::span(kPlaces)), "main"},
                  /*shared=*/{},
                  {4, 8, 16, 12, 4, 16, 24, 8},
                  /*shared_bytes=*/0,
                  /*grid_blocks=*/65'535,
                  /*block_threads=*/128});
#endif
#ifdef KEEL_CONFORMANCE_OPENCL
  constexpr uint32_t kOpenClSharedBytes = 32 << 10;
  sets.push_back(whole(KEEL_BINARY_SPIRV, "SPIR-V for OpenCL", /*knows_arguments=*/true, kOpenCl,
                       kOpenClTwin, {1, 2, 4, 8, 16, 40, 3, 1000}, kOpenClSharedBytes));
  sets.back().block_threads = 256;
#endif
  sets.push_back(whole(KEEL_BINARY_CUBIN, "PTX", /*knows_arguments=*/true, kPtx, kPtxTwin,
                       {1, 2, 4, 8, 16, 40, 3, 4000}, kPtxSharedBytes));
  // The emulated chip accepts a shared object as a cubin; GPUs reject it. Like a GPU, the chip
  // gives a block more than 48 KiB only to kernels for which the plugin has requested the size.
  constexpr uint32_t kEmulatedSharedBytes = 227 << 10;
  sets.push_back(whole(KEEL_BINARY_CUBIN, "a cubin", /*knows_arguments=*/true, kSharedObject,
                       kSharedObjectTwin, value_bytes, kEmulatedSharedBytes));
  // And as a code object.
  sets.push_back(whole(KEEL_BINARY_HSACO, "a code object", /*knows_arguments=*/false, kSharedObject,
                       kSharedObjectTwin, value_bytes, kPtxSharedBytes));
  sets.push_back(whole(KEEL_BINARY_SHARED_OBJECT, "a shared object", /*knows_arguments=*/false,
                       kSharedObject, kSharedObjectTwin, value_bytes, kCpuSharedBytes));
  return sets;
}

bool g_own = true;

std::vector<KernelSet>& sets() {
  static auto& all = *new std::vector<KernelSet>(own_sets());
  return all;
}

}  // namespace

std::span<const KernelSet> kernel_sets() {
  return sets();
}

bool use_kernel_folder(const std::string& folder, std::string* error) {
  std::vector<KernelSet> read;
  if (!read_kernel_folder(folder, &read, error)) return false;
  sets() = std::move(read);
  g_own = false;
  return true;
}

bool has_own_kernels() {
  return g_own;
}

std::span<const std::byte> opencl_spirv() {
  static constexpr uint32_t kWords[] = {
      0x07230203, 0x00010000, 0,          5,          0,           // header, five ids
      0x00020011, 4,                                               // OpCapability Addresses
      0x00020011, 6,                                               // OpCapability Kernel
      0x0003000e, 2,          2,                                   // Physical64, OpenCL
      0x0005000f, 6,          1,          0x74706d65, 0x00000079,  // kernel "empty"
      0x00020013, 2,                                               // %2 = void
      0x00030021, 3,          2,                                   // %3 = void ()
      0x00050036, 2,          1,          0,          3,
      0x000200f8, 4,          0x000100fd, 0x00010038,  // its body
  };
  return std::as_bytes(std::span(kWords));
}

}  // namespace keel::conformance
