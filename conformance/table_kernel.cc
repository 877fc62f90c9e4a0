// SPDX-License-Identifier: Apache-2.0
#include "conformance/table_kernel.h"

#include <array>

#include "conformance/table_objects.h"

namespace keel::conformance {

TableKernel::TableKernel(const Context& context,
                         const std::function<bool(const KernelSet&)>& usable, const char* reason,
                         Where where)
    : context_(context) {
  const PluginDevice& device = device_of(context);
  const keel_kernel_table* const table = device.plugin().kernel;
  for (const KernelSet& set : kernel_sets()) {
    if (!set.number.exists() || !usable(set)) continue;
    const std::span<const std::byte> module = set.number.module;
    const keel_status status = observe_status(
        table->load(device.get(), set.format, module.data(), module.size(), &module_), where);
    if (status != KEEL_OK) continue;
    need(table->find(module_, set.number.name.c_str(), &kernel_), "kernel.find", where);
    return;
  }
  unsupported(reason);
}

void TableKernel::launch(keel_plugin_stream* stream, std::byte* result, uint64_t words,
                         uint32_t first, Where where) const {
  need(try_launch(stream, result, words, first), "kernel.launch", where);
}

keel_status TableKernel::try_launch(keel_plugin_stream* stream, std::byte* result, uint64_t words,
                                    uint32_t first) const {
  // Local variables, overwritten after the launch.
  std::array<const void*, 2> arguments = {&result, &first};
  std::array<uint32_t, 2> sizes = {sizeof(result), sizeof(first)};
  keel_launch call = KEEL_STRUCT_INIT(keel_launch, KEEL_STRUCT_LAUNCH);
  for (uint32_t axis = 0; axis < 3; ++axis) call.grid[axis] = call.block[axis] = 1;
  call.grid[0] = static_cast<uint32_t>(words / kBlock);
  call.block[0] = kBlock;
  call.argument_count = static_cast<uint32_t>(arguments.size());
  call.arguments = arguments.data();
  call.argument_sizes = sizes.data();
  const keel_status status = device_of(context_).plugin().kernel->launch(stream, kernel_, &call);
  result = nullptr;
  first = 0;
  arguments = {};
  sizes = {};
  call = {};
  return status;
}

void TableKernel::unload() const {
  device_of(context_).plugin().kernel->unload(module_);
}

}  // namespace keel::conformance
