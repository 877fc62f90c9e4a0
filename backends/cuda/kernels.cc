// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels.h"

#include <keel/plugin_kit.hpp>

#include "backends/cuda/device.h"
#include "backends/simt/image.h"

namespace keel::cuda {
namespace {

constexpr const char* kNames[] = {
#define KEEL_CUDA_NAME(name) "keel_" #name,
    KEEL_SIMT_KERNELS(KEEL_CUDA_NAME)
#undef KEEL_CUDA_NAME
};

// What the kernels are compiled for: Ampere, and what came after it.
constexpr int kOldestMajor = 8;

}  // namespace

bool Kernels::are_for(int major) {
  return !simt::cuda_image().empty() && (major == 0 || major >= kOldestMajor);
}

bool Kernels::surely_load(int driver_version) {
  return driver_version >= simt::cuda_image_version();
}

std::unique_ptr<Kernels> Kernels::load(Device& device) {
  std::unique_ptr<Kernels> kernels(new Kernels);
  int major = 0;
  int multiprocessors = 0;
  CUresult result = CUDA_SUCCESS;
  const char* what = "cuModuleLoadDataEx";
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
    result = cu.ModuleLoadDataEx(&kernels->module_, simt::cuda_image().data(), 0, nullptr, nullptr);
    for (size_t i = 0; result == CUDA_SUCCESS && i < kernels->functions_.size(); ++i) {
      what = kNames[i];
      result = cu.ModuleGetFunction(&kernels->functions_[i], kernels->module_, kNames[i]);
    }
    return CUDA_SUCCESS;  // a device without operators is one all the same
  });
  if (status == KEEL_OK && result == CUDA_SUCCESS && kernels->module_ != nullptr) return kernels;
  if (result != CUDA_SUCCESS) {
    device.driver().warn_once(
        "cuda: the operators' kernels cannot be loaded, and are not claimed: " +
        device.driver().text_of(what, result) + "; " + device.driver().description());
  }
  if (kernels->module_ != nullptr) kernels->unload(device);
  return nullptr;
}

void Kernels::unload(Device& device) {
  (void)device.release("cuModuleUnload",
                       [&](const Functions& cu) { return cu.ModuleUnload(module_); });
  module_ = nullptr;
}

}  // namespace keel::cuda
