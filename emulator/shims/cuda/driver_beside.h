// SPDX-License-Identifier: Apache-2.0
// Finds the driver shim, owner of the chips and streams, for the shims of Nvidia's further
// libraries. The search covers only the caller's folder and its parent, since a foreign
// libcuda.so.1 may be loaded from elsewhere.
#ifndef KEEL_EMULATOR_SHIMS_CUDA_DRIVER_BESIDE_H_
#define KEEL_EMULATOR_SHIMS_CUDA_DRIVER_BESIDE_H_

#include <cuda.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>

#include "emulator/device.h"
#include "emulator/shims/cuda/sharing.h"
#include "emulator/status.h"
#include "emulator/stream.h"

// The driver's file, which shims of other vendors' libraries set.
#ifndef KEEL_DRIVER_BESIDE
#define KEEL_DRIVER_BESIDE "libcuda.so.1"
#endif

namespace keel::emulator::cuda {

// Immutable once open; thread-safe.
class DriverBeside {
 public:
  // |own_function|: any function of the calling library. The driver is in that library's folder, or
  // in the parent folder. Returns kUnavailable if neither has the emulated chip's driver.
  Status open(void* own_function) {
    Dl_info info = {};
    if (dladdr(own_function, &info) == 0 || info.dli_fname == nullptr) {
      return {Code::kUnavailable, "this library does not know where it lies"};
    }
    const std::filesystem::path folder = std::filesystem::path(info.dli_fname).parent_path();
    for (const std::filesystem::path& each : {folder, folder.parent_path()}) {
      const std::filesystem::path path = each / KEEL_DRIVER_BESIDE;
      void* const driver = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (driver == nullptr) continue;
      chip_ = reinterpret_cast<decltype(chip_)>(dlsym(driver, "keel_emulated_cuda_chip"));
      stream_ = reinterpret_cast<decltype(stream_)>(dlsym(driver, "keel_emulated_cuda_stream"));
      if (chip_ != nullptr && stream_ != nullptr) return {};
    }
    return {Code::kUnavailable,
            fmt::format("'{}' has no driver of the emulated chip: this library works on no other",
                        folder.string())};
  }

  // Return the chip of the calling thread's current context, and a stream of that context.
  Status chip(std::shared_ptr<Device>* out_chip) const { return said(chip_(out_chip)); }
  Status stream(CUstream handle, Stream** out_stream) const {
    return said(stream_(handle, out_stream));
  }

 private:
  static Status said(CUresult result) {
    if (result == CUDA_SUCCESS) return {};
    return {Code::kDeviceLost,
            fmt::format("the driver says CUresult {}", static_cast<int>(result))};
  }

  decltype(&keel_emulated_cuda_chip) chip_ = nullptr;
  decltype(&keel_emulated_cuda_stream) stream_ = nullptr;
};

}  // namespace keel::emulator::cuda

#endif  // KEEL_EMULATOR_SHIMS_CUDA_DRIVER_BESIDE_H_
