// SPDX-License-Identifier: Apache-2.0
// Modules and kernels of the caller, checked.
#include <keel/plugin_kit.hpp>

#include "core/status.h"
#include "core/validation/call.h"
#include "core/validation/tables.h"

namespace keel::validation {

namespace {

keel_status load(keel_plugin_device* handle, keel_binary_format format, const void* data,
                 uint64_t size, keel_plugin_module** out_module) {
  Call call("kernel.load", handle, format, data, size, out_module);
  std::shared_ptr<CheckedDevice> device;
  if (!call.find(handle, &device) || !call.check(out_module != nullptr, "out_module is NULL") ||
      !call.check_slot(device->has(KEEL_CAPABILITY_KERNELS), "KEEL_CAPABILITY_KERNELS") ||
      !call.check(format >= KEEL_BINARY_SPIRV && format <= KEEL_BINARY_VENDOR,
                  "format {} is no format of binaries", format) ||
      !call.check(data != nullptr, "data is NULL") || !call.check(size != 0, "size is 0")) {
    return call.refused();
  }
  keel_plugin_module* native = nullptr;
  const keel_status code =
      call.answer(device->real().kernel->load(device->native, format, data, size, &native));
  if (code != KEEL_OK) return code;
  if (native == nullptr) return call.broken("the plugin left *out_module unset");
  auto module = std::make_shared<CheckedModule>();
  module->device = device;
  module->native = native;
  module->origin = capture_origin();
  *out_module = registry<keel_plugin_module>().insert(std::move(module));
  return code;
}

void unload(keel_plugin_module* handle) {
  Call call("kernel.unload", handle);
  std::shared_ptr<CheckedModule> module;
  if (!call.find(handle, &module)) return;
  registry<keel_plugin_module>().remove(handle);
  {
    std::lock_guard lock(module->device->mutex);
    for (const auto& [native, kernel] : module->kernels) {
      registry<keel_plugin_kernel>().remove(kernel);
    }
  }
  module->real().kernel->unload(module->native);
}

keel_status find(keel_plugin_module* handle, const char* name, keel_plugin_kernel** out_kernel) {
  Call call("kernel.find", handle, name, out_kernel);
  std::shared_ptr<CheckedModule> module;
  if (!call.find(handle, &module) || !call.check(name != nullptr, "name is NULL") ||
      !call.check(out_kernel != nullptr, "out_kernel is NULL")) {
    return call.refused();
  }
  keel_plugin_kernel* native = nullptr;
  const keel_status code = call.answer(module->real().kernel->find(module->native, name, &native));
  if (code != KEEL_OK) return code;
  if (native == nullptr) return call.broken("the plugin left *out_kernel unset");
  std::lock_guard lock(module->device->mutex);
  keel_plugin_kernel*& known = module->kernels[native];
  if (known == nullptr) {
    auto kernel = std::make_shared<CheckedKernel>();
    kernel->device = module->device;
    kernel->native = native;
    kernel->name = name;
    known = registry<keel_plugin_kernel>().insert(std::move(kernel));
  }
  *out_kernel = known;
  return code;
}

bool check_launch(Call& call, const keel_launch* launch) {
  if (!call.check(launch != nullptr, "launch is NULL") ||
      !call.check(
          launch->header.type == KEEL_STRUCT_LAUNCH && launch->header.size >= sizeof(keel_launch),
          "launch->header has size {} and type {}", launch->header.size, launch->header.type)) {
    return false;
  }
  for (int axis = 0; axis < 3; ++axis) {
    if (!call.check(launch->grid[axis] != 0, "launch->grid[{}] is 0", axis) ||
        !call.check(launch->block[axis] != 0, "launch->block[{}] is 0", axis)) {
      return false;
    }
  }
  if (launch->argument_count == 0) return true;
  if (!call.check(launch->arguments != nullptr, "launch->arguments is NULL") ||
      !call.check(launch->argument_sizes != nullptr, "launch->argument_sizes is NULL")) {
    return false;
  }
  for (uint32_t i = 0; i < launch->argument_count; ++i) {
    if (!call.check(launch->arguments[i] != nullptr, "launch->arguments[{}] is NULL", i) ||
        !call.check(launch->argument_sizes[i] != 0, "launch->argument_sizes[{}] is 0", i)) {
      return false;
    }
  }
  return true;
}

// An argument with the address of live memory uses that allocation until the launch is done. Not
// complete: a kernel may follow pointers stored in memory.
std::vector<Range> pointers_of(CheckedDevice& device, const keel_launch& launch) {
  std::vector<Range> ranges;
  for (uint32_t i = 0; i < launch.argument_count; ++i) {
    if (launch.argument_sizes[i] != sizeof(void*)) continue;
    const void* pointer = nullptr;
    std::memcpy(&pointer, launch.arguments[i], sizeof(pointer));
    ranges.push_back({device, Space::kDevice, pointer, 1, "argument"});
  }
  return ranges;
}

keel_status launch(keel_plugin_stream* handle, keel_plugin_kernel* kernel_handle,
                   const keel_launch* launch) {
  Call call("kernel.launch", handle, kernel_handle, launch);
  Enqueue enqueue(call, handle);
  std::shared_ptr<CheckedKernel> kernel;
  if (!enqueue.ok() || !call.find(kernel_handle, &kernel) ||
      !call.check(kernel->device == enqueue.stream().device, "kernel {} is of {}, stream of {}",
                  kernel->name, kernel->device->name, enqueue.device().name) ||
      !check_launch(call, launch)) {
    return call.refused();
  }
  const keel_status code =
      call.answer(enqueue.device().real().kernel->launch(enqueue.native(), kernel->native, launch));
  if (code == KEEL_OK) enqueue.done(pointers_of(enqueue.device(), *launch));
  return code;
}

}  // namespace

keel_kernel_table checked_kernel_table(const keel_kernel_table* real) {
  keel_kernel_table table = {};
  table.header = kit::header<keel_kernel_table>(KEEL_STRUCT_KERNEL_TABLE);
  KEEL_CHECKED_SLOT(keel_kernel_table, load, load)
  KEEL_CHECKED_SLOT(keel_kernel_table, unload, unload)
  KEEL_CHECKED_SLOT(keel_kernel_table, find, find)
  KEEL_CHECKED_SLOT(keel_kernel_table, launch, launch)
  return table;
}

}  // namespace keel::validation
