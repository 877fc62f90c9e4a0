// SPDX-License-Identifier: Apache-2.0
#include "backends/level_zero/module.h"

#include <algorithm>
#include <cstring>
#include <keel/plugin_kit.hpp>
#include <string_view>

#include "backends/level_zero/kernels.h"

namespace keel::gpu {

keel_status Module::load(Device& device, keel_binary_format format, const void* data, uint64_t size,
                         std::unique_ptr<Module>* out_module) {
  if (format != KEEL_BINARY_SPIRV) {
    return kit::fail(KEEL_UNSUPPORTED, "level_zero: loads SPIR-V for OpenCL, not format %u",
                     format);
  }
  std::unique_ptr<Module> module(new Module(device));
  // Drivers crash on modules that are cut short.
  keel_status status = read_spirv(data, size, &module->parsed_);
  if (status != KEEL_OK) return status;
  status = device.call("zeDeviceGetComputeProperties", [&](const ze::Functions& ze) {
    return ze.DeviceGetComputeProperties(device.handle(), &module->limits_);
  });
  if (status != KEEL_OK) return status;
  // A driver reads words.
  std::vector<uint32_t> words(size / sizeof(uint32_t));
  std::memcpy(words.data(), data, size);
  ze::ModuleDesc desc;
  desc.bytes = size;
  desc.data = reinterpret_cast<const uint8_t*>(words.data());
  std::string log;
  status = device.call("zeModuleCreate", [&](const ze::Functions& ze) {
    ze::BuildLog native_log = nullptr;
    const ze::Result result =
        ze.ModuleCreate(device.context(), device.handle(), &desc, &module->native_, &native_log);
    log = take_log(ze, native_log);
    if (result != ze::kSuccess) module->native_ = nullptr;
    return result;
  });
  if (status == KEEL_OK) {
    *out_module = std::move(module);
  } else if (!log.empty() && status != KEEL_DEVICE_LOST) {
    return kit::fail(status, "level_zero: zeModuleCreate%s", log.c_str());
  }
  return status;
}

Module::~Module() {
  for (const auto& [name, kernel] : kernels_) {
    (void)device_.release("zeKernelDestroy", [&](const ze::Functions& ze) {
      return ze.KernelDestroy(kernel->native());
    });
  }
  if (native_ == nullptr) return;
  (void)device_.release("zeModuleDestroy",
                        [&](const ze::Functions& ze) { return ze.ModuleDestroy(native_); });
}

keel_status Module::find(const char* name, UserKernel** out_kernel) {
  const std::lock_guard lock(mutex_);
  if (const auto known = kernels_.find(std::string_view(name)); known != kernels_.end()) {
    *out_kernel = known->second.get();
    return KEEL_OK;
  }
  const auto parsed = std::find_if(parsed_.begin(), parsed_.end(),
                                   [&](const SpirvKernel& each) { return each.name == name; });
  if (parsed == parsed_.end()) {
    return kit::fail(KEEL_NOT_FOUND, "level_zero: the module has no kernel '%s'", name);
  }
  ze::KernelDesc desc;
  desc.name = parsed->name.c_str();
  ze::Kernel native = nullptr;
  keel_status status = device_.call("zeKernelCreate", [&](const ze::Functions& ze) {
    return ze.KernelCreate(native_, &desc, &native);
  });
  if (status != KEEL_OK) return status;
  // A kernel may find addresses in the structs and the memory that it is given.
  status = device_.call("zeKernelSetIndirectAccess", [&](const ze::Functions& ze) {
    return ze.KernelSetIndirectAccess(
        native, ze::kIndirectHost | ze::kIndirectDevice | ze::kIndirectShared);
  });
  auto kernel = std::make_unique<UserKernel>(*parsed, native, limits_);
  if (status != KEEL_OK) {
    (void)device_.release("zeKernelDestroy",
                          [&](const ze::Functions& ze) { return ze.KernelDestroy(native); });
    return status;
  }
  *out_kernel = kernels_.emplace(name, std::move(kernel)).first->second.get();
  return KEEL_OK;
}

keel_status UserKernel::check(const keel_launch& launch) const {
  const char* const name = parsed_.name.c_str();
  uint32_t given = 0;
  uint32_t local = 0;
  for (const SpirvParameter& parameter : parsed_.parameters) {
    if (parameter.is_local) {
      ++local;
      continue;
    }
    if (given < launch.argument_count && parameter.bytes != SpirvParameter::kUnknown &&
        launch.argument_sizes[given] != parameter.bytes) {
      return kit::fail(KEEL_INVALID_ARGUMENT,
                       "level_zero: argument %u of kernel '%s' has %llu bytes, not %u", given, name,
                       static_cast<unsigned long long>(parameter.bytes),
                       launch.argument_sizes[given]);
    }
    ++given;
  }
  if (given != launch.argument_count) {
    return kit::fail(KEEL_INVALID_ARGUMENT, "level_zero: kernel '%s' takes %u arguments, not %u",
                     name, given, launch.argument_count);
  }
  if (local > 1 || (local == 1) != (launch.dynamic_shared_bytes != 0)) {
    return kit::fail(KEEL_INVALID_ARGUMENT,
                     "level_zero: kernel '%s' takes %u pointers to local memory, and "
                     "dynamic_shared_bytes is %u",
                     name, local, launch.dynamic_shared_bytes);
  }
  const uint32_t most_groups[] = {limits_.max_groups_x, limits_.max_groups_y, limits_.max_groups_z};
  const uint32_t most_threads[] = {limits_.max_group_x, limits_.max_group_y, limits_.max_group_z};
  uint64_t threads = 1;
  for (int axis = 0; axis < 3; ++axis) {
    threads *= launch.block[axis];
    if (launch.grid[axis] > most_groups[axis] || launch.block[axis] > most_threads[axis]) {
      threads = UINT64_MAX;
      break;
    }
  }
  if (threads > limits_.max_group_size || launch.dynamic_shared_bytes > limits_.max_local_bytes) {
    return kit::fail(KEEL_INVALID_ARGUMENT,
                     "level_zero: the device has groups of up to %u x %u x %u threads, %u in all, "
                     "with %u bytes of local memory, and up to %u x %u x %u groups",
                     most_threads[0], most_threads[1], most_threads[2], limits_.max_group_size,
                     limits_.max_local_bytes, most_groups[0], most_groups[1], most_groups[2]);
  }
  return KEEL_OK;
}

ze::Result UserKernel::set_arguments(const ze::Functions& ze, const keel_launch& launch,
                                     const char** out_name) {
  *out_name = "zeKernelSetGroupSize";
  ze::Result result =
      ze.KernelSetGroupSize(native_, launch.block[0], launch.block[1], launch.block[2]);
  uint32_t given = 0;
  for (uint32_t i = 0; result == ze::kSuccess && i < parsed_.parameters.size(); ++i) {
    *out_name = "zeKernelSetArgumentValue";
    if (parsed_.parameters[i].is_local) {
      result = ze.KernelSetArgumentValue(native_, i, launch.dynamic_shared_bytes, nullptr);
    } else {
      result = ze.KernelSetArgumentValue(native_, i, launch.argument_sizes[given],
                                         launch.arguments[given]);
      ++given;
    }
  }
  return result;
}

keel_status UserKernel::launch(Stream& stream, const keel_launch& launch) {
  keel_status status = check(launch);
  if (status != KEEL_OK) return status;
  const std::lock_guard lock(mutex_);
  const char* name = "";
  ze::Result result = ze::kSuccess;
  status = stream.device().call("a kernel's arguments", [&](const ze::Functions& ze) {
    result = set_arguments(ze, launch, &name);
    return ze::kSuccess;
  });
  if (status == KEEL_OK) status = stream.device().check(name, result);
  if (status != KEEL_OK) return status;
  return stream.launch(native_, {launch.grid[0], launch.grid[1], launch.grid[2]});
}

}  // namespace keel::gpu
