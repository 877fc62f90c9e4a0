// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels.h"

#include <keel/plugin_kit.hpp>
#include <string>

#include "backends/cuda/device.h"
#include "kernels/gpu/image.h"

namespace keel::cuda {
namespace {

// The oldest major capability that the kernels are compiled for: Ampere.
constexpr int kOldestMajor = 8;

}  // namespace

bool Kernels::are_for(int major) {
  return !simt::cuda_images().empty() && (major == 0 || major >= kOldestMajor);
}

bool Kernels::surely_load(int driver_version) {
  return driver_version >= simt::cuda_image_version();
}

std::unique_ptr<Kernels> Kernels::load(Device& device) {
  std::unique_ptr<Kernels> kernels(new Kernels);
  int major = 0;
  int multiprocessors = 0;
  CUresult result = CUDA_SUCCESS;
  const char* call = nullptr;
  const char* name = nullptr;
  const keel_status status = device.call("cuModuleLoadDataEx", [&](const Functions& cu) {
    if (cu.DeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                              device.handle()) != CUDA_SUCCESS) {
      major = 0;
    }
    if (!are_for(major)) return CUDA_SUCCESS;
    if (cu.DeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                              device.handle()) == CUDA_SUCCESS &&
        multiprocessors > 0) {
      kernels->multiprocessors_ = static_cast<uint32_t>(multiprocessors);
    }
    result = kernels->load_images(cu, &call, &name);
    return CUDA_SUCCESS;  // the device is usable without operators
  });
  if (status == KEEL_OK && result == CUDA_SUCCESS && kernels->modules_[0] != nullptr) {
    return kernels;
  }
  kernels->unload(device);
  if (result != CUDA_SUCCESS) {
    const std::string what = std::string(call) + " of " + name;
    device.driver().warn_once(
        "cuda: the operators' kernels cannot be loaded, and are not claimed: " +
        device.driver().text_of(what.c_str(), result) + "; " + device.driver().description());
  }
  return nullptr;
}

CUresult Kernels::load_images(const Functions& cu, const char** out_call, const char** out_name) {
  CUmodule* module = modules_.data();
  CUfunction* function = functions_.data();
  for (const simt::CudaImage& image : simt::cuda_images()) {
    *out_call = "cuModuleLoadDataEx";
    *out_name = image.family;
    CUresult result = cu.ModuleLoadDataEx(module, image.bytes.data(), 0, nullptr, nullptr);
    if (result != CUDA_SUCCESS) return result;
    *out_call = "cuModuleGetFunction";
    for (const char* const kernel : image.kernels) {
      *out_name = kernel;
      result = cu.ModuleGetFunction(function++, *module, kernel);
      if (result != CUDA_SUCCESS) return result;
    }
    ++module;
  }
  return CUDA_SUCCESS;
}

void Kernels::unload(Device& device) {
  for (CUmodule& module : modules_) {
    if (module == nullptr) continue;
    (void)device.release("cuModuleUnload",
                         [&](const Functions& cu) { return cu.ModuleUnload(module); });
    module = nullptr;
  }
}

}  // namespace keel::cuda
