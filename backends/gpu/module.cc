// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/module.h"

#include <keel/plugin_kit.hpp>
#include <string_view>
#include <utility>

#include "backends/gpu/image_copy.h"
#include "backends/gpu/result_codes.h"

namespace keel::gpu {

keel_status Module::load(Device& device, keel_binary_format format, const void* data, uint64_t size,
                         std::unique_ptr<Module>* out_module) {
  if (format != kBinaryFormat) {
    return kit::fail(KEEL_UNSUPPORTED, KEEL_GPU ": loads %s, not format %u", kBinaryFormatText,
                     format);
  }
  if (const char* const defect = image_defect(data, size)) {
    return kit::fail(KEEL_INVALID_ARGUMENT, KEEL_GPU ": the module cannot be loaded: %s", defect);
  }
  const ImageCopy image(data, size);
  std::unique_ptr<Module> module(new Module(device));
  std::string log;
  const keel_status status = device.call(Names::ModuleLoadDataEx, [&](const Functions& api) {
    return load_image(api, image.data(), &module->native_, &log);
  });
  if (status == KEEL_OK) {
    *out_module = std::move(module);
  } else if (!log.empty() && status != KEEL_DEVICE_LOST) {
    return kit::fail(status, KEEL_GPU ": %s: %s", Names::ModuleLoadDataEx, log.c_str());
  }
  return status;
}

Module::~Module() {
  if (native_ == nullptr) return;
  (void)device_.release(Names::ModuleUnload,
                        [&](const Functions& api) { return api.ModuleUnload(native_); });
}

keel_status Module::find(const char* name, Kernel** out_kernel) {
  const std::lock_guard lock(mutex_);
  if (const auto known = kernels_.find(std::string_view(name)); known != kernels_.end()) {
    *out_kernel = known->second.get();
    return KEEL_OK;
  }
  NativeFunction function = nullptr;
  const keel_status status = device_.call(Names::ModuleGetFunction, [&](const Functions& api) {
    return api.ModuleGetFunction(&function, native_, name);
  });
  if (status == KEEL_NOT_FOUND || status == KEEL_INVALID_ARGUMENT) {
    return kit::fail(KEEL_NOT_FOUND, KEEL_GPU ": the module has no kernel '%s'", name);
  }
  if (status != KEEL_OK) return status;
  bool knows_sizes = false;
  std::vector<size_t> sizes;
  if (const auto get_info = device_.functions().FuncGetParamInfo; get_info != nullptr) {
    const keel_status asked = device_.call(Names::FuncGetParamInfo, [&](const Functions&) {
      while (true) {
        size_t offset = 0;
        size_t size = 0;
        const Result result = get_info(function, sizes.size(), &offset, &size);
        if (result == kErrorInvalidValue) return kSuccess;  // past the last argument
        if (result != kSuccess) return result;
        sizes.push_back(size);
      }
    });
    if (asked == KEEL_DEVICE_LOST) return asked;
    knows_sizes = asked == KEEL_OK;
  }
  auto kernel = std::make_unique<Kernel>(name, function, knows_sizes, std::move(sizes));
  *out_kernel = kernels_.emplace(name, std::move(kernel)).first->second.get();
  return KEEL_OK;
}

keel_status Kernel::check_arguments(const keel_launch& launch) const {
  if (!knows_sizes_) return KEEL_OK;
  if (launch.argument_count != sizes_.size()) {
    return kit::fail(KEEL_INVALID_ARGUMENT, KEEL_GPU ": kernel '%s' takes %zu arguments, not %u",
                     name_.c_str(), sizes_.size(), launch.argument_count);
  }
  for (uint32_t i = 0; i < launch.argument_count; ++i) {
    if (launch.argument_sizes[i] == sizes_[i]) continue;
    return kit::fail(KEEL_INVALID_ARGUMENT,
                     KEEL_GPU ": argument %u of kernel '%s' has %zu bytes, not %u", i,
                     name_.c_str(), sizes_[i], launch.argument_sizes[i]);
  }
  return KEEL_OK;
}

keel_status Kernel::allow_shared(Device& device, uint32_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes <= allowed_shared_) return KEEL_OK;
  const keel_status status = device.call(Names::FuncSetAttribute, [&](const Functions& api) {
    return allow_shared_bytes(api, function_, bytes);
  });
  if (status == KEEL_OK) allowed_shared_ = bytes;
  return status;
}

keel_status Kernel::launch(Stream& stream, const keel_launch& launch) {
  keel_status status = check_arguments(launch);
  if (status != KEEL_OK) return status;
  if (launch.dynamic_shared_bytes > kUsualSharedBytes) {
    status = allow_shared(stream.device(), launch.dynamic_shared_bytes);
    if (status != KEEL_OK) return status;
  }
  // The driver only reads through the pointers.
  void** const arguments = const_cast<void**>(launch.arguments);
  return stream.call(Names::LaunchKernel, [&](const Functions& api) {
    return api.LaunchKernel(function_, launch.grid[0], launch.grid[1], launch.grid[2],
                            launch.block[0], launch.block[1], launch.block[2],
                            launch.dynamic_shared_bytes, stream.native(), arguments,
                            /*extra=*/nullptr);
  });
}

}  // namespace keel::gpu
