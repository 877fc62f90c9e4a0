// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/kernels.h"

#include <keel/plugin_kit.hpp>
#include <string>

#include "backends/gpu/device.h"
#include "backends/gpu/result_codes.h"
#include "backends/gpu/stream.h"
#include "kernels/gpu/arguments.h"
#include "kernels/gpu/image.h"

namespace keel::gpu {

bool Kernels::are_for(int capability) {
  return !images().empty() && kernels_are_for(capability);
}

bool Kernels::surely_load(int driver_version) {
  return driver_version >= image_version();
}

std::unique_ptr<Kernels> Kernels::load(Device& device) {
  std::unique_ptr<Kernels> kernels(new Kernels);
  int multiprocessors = 0;
  Result result = kSuccess;
  const char* call = nullptr;
  const char* name = nullptr;
  std::string log;
  const keel_status status = device.call(Names::ModuleLoadDataEx, [&](const Functions& api) {
    if (!are_for(capability_of(api, device.handle()))) return kSuccess;
    if (api.DeviceGetAttribute(&multiprocessors, kMultiprocessorCount, device.handle()) ==
            kSuccess &&
        multiprocessors > 0) {
      kernels->multiprocessors_ = static_cast<uint32_t>(multiprocessors);
    }
    result = kernels->load_images(device, &call, &name, &log);
    return kSuccess;  // the device is usable without operators
  });
  if (status == KEEL_OK && result == kSuccess && kernels->modules_[0] != nullptr) {
    return kernels;
  }
  kernels->unload(device);
  if (result != kSuccess) {
    const std::string what = std::string(call) + " of " + name;
    device.driver().warn_once(
        KEEL_GPU ": the operators' kernels cannot be loaded, and are not claimed: " +
        device.driver().text_of(what.c_str(), result) + (log.empty() ? "" : "; ") + log + "; " +
        device.driver().description());
  }
  return nullptr;
}

Result Kernels::load_images(const Device& device, const char** out_call, const char** out_name,
                            std::string* out_log) {
  const Functions& api = device.functions();
  NativeModule* module = modules_.data();
  NativeFunction* function = functions_.data();
  for (const simt::Image& image : images()) {
    *out_call = Names::ModuleLoadDataEx;
    *out_name = image.family;
    Result result =
        load_family(api, device.handle(), device.driver().version(), image, module, out_log);
    if (result != kSuccess) return result;
    *out_call = Names::ModuleGetFunction;
    for (const char* const kernel : image.kernels) {
      *out_name = kernel;
      result = api.ModuleGetFunction(function++, *module, kernel);
      if (result != kSuccess) return result;
    }
    ++module;
  }
  return kSuccess;
}

keel_status Kernels::launch(Stream& stream, simt::KernelId id, uint32_t blocks_x, uint32_t blocks_y,
                            const void* arguments, size_t /*size*/) const {
  void* parameters[] = {const_cast<void*>(arguments)};
  return stream.call(Names::LaunchKernel, [&](const Functions& api) {
    return api.LaunchKernel(functions_[static_cast<size_t>(id)], blocks_x, blocks_y, 1,
                            simt::kThreads, 1, 1, /*sharedMemBytes=*/0, stream.native(), parameters,
                            /*extra=*/nullptr);
  });
}

void Kernels::unload(Device& device) {
  for (NativeModule& module : modules_) {
    if (module == nullptr) continue;
    (void)device.release(Names::ModuleUnload,
                         [&](const Functions& api) { return api.ModuleUnload(module); });
    module = nullptr;
  }
}

}  // namespace keel::gpu
