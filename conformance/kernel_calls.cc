// SPDX-License-Identifier: Apache-2.0
#include "conformance/kernel_calls.h"

#include <fmt/format.h>

namespace keel::conformance {

bool takes_opencl_spirv(const Context& context, Where where) {
  const std::span<const std::byte> empty = opencl_spirv();
  keel_module module = {};
  const keel_status status = observe_status(
      keel_module_load(context.device(), KEEL_BINARY_SPIRV, empty.data(), empty.size(), &module),
      where);
  if (status != KEEL_OK) return false;
  must(keel_module_unload(module), "keel_module_unload", where);
  return true;
}

const KernelSet& choose_set(const Context& context, Where where) {
  std::vector<std::string> foreign;  // names of the formats that the device does not take
  std::string foreign_text;          // for the last of them
  std::vector<std::string> refusals;
  for (const KernelSet& set : kernel_sets()) {
    keel_module module = {};
    const keel_status status =
        observe_status(keel_module_load(context.device(), set.format, set.axpy.module.data(),
                                        set.axpy.module.size(), &module),
                       where);
    if (status == KEEL_UNSUPPORTED) {
      foreign.push_back(set.format_name);
      foreign_text = observe_text(keel_last_error(), where);
      continue;
    }
    if (status == KEEL_INVALID_ARGUMENT) {
      // A format has several flavours, and a device rejects binaries of a foreign flavour.
      const std::string text = observe_text(keel_last_error(), where);
      const bool has_more = &set != &kernel_sets().back() && (&set + 1)->format == set.format;
      if (has_more || (set.format == KEEL_BINARY_SPIRV && takes_opencl_spirv(context, where))) {
        refusals.push_back(fmt::format("{}: {}", set.format_name, text));
        continue;
      }
      fail_case(fmt::format("keel_module_load of {}: {}", set.format_name, text), where);
    }
    must(status, fmt::format("keel_module_load of {}", set.format_name), where);
    must(keel_module_unload(module), "keel_module_unload", where);
    return set;
  }
  if (!foreign.empty()) {
    refusals.push_back(fmt::format("{}: {}", fmt::join(foreign, ", "), foreign_text));
  }
  unsupported(
      fmt::format("there is no binary in a format that the device takes; --kernels names a folder "
                  "with some. {}",
                  fmt::join(refusals, "; ")));
}

Module::Module(const Context& context, const KernelSet& set, const KernelBinary& binary,
               Where where) {
  must(keel_module_load(context.device(), set.format, binary.module.data(), binary.module.size(),
                        &module_),
       "keel_module_load", where);
  const keel_status found =
      observe_status(keel_kernel_find(module_, binary.name.c_str(), &kernel_), where);
  if (found == KEEL_OK) return;
  const std::string text = observe_text(keel_last_error(), where);
  keel_module_unload(module_);
  fail_case(
      fmt::format("keel_kernel_find of '{}': {}: {}", binary.name, keel_status_name(found), text),
      where);
}

keel_status Module::unload() {
  const keel_status status = module_.id == 0 ? KEEL_OK : keel_module_unload(module_);
  module_ = {};
  return status;
}

keel_status launch_values(const Stream& stream, keel_kernel kernel, const Extents& extents,
                          std::span<const std::span<const std::byte>> values,
                          uint32_t shared_bytes) {
  // Pass copies and overwrite them after the call: a launch that reads the arguments late reads the
  // red zone.
  std::vector<std::vector<std::byte>> copies;
  std::vector<const void*> pointers;
  std::vector<uint32_t> sizes;
  for (const std::span<const std::byte> value : values) {
    copies.emplace_back(value.begin(), value.end());
    pointers.push_back(copies.back().data());
    sizes.push_back(static_cast<uint32_t>(value.size()));
  }
  keel_launch call = KEEL_STRUCT_INIT(keel_launch, KEEL_STRUCT_LAUNCH);
  std::copy(extents.grid.begin(), extents.grid.end(), call.grid);
  std::copy(extents.block.begin(), extents.block.end(), call.block);
  call.dynamic_shared_bytes = shared_bytes;
  call.argument_count = static_cast<uint32_t>(values.size());
  call.arguments = pointers.data();
  call.argument_sizes = sizes.data();
  const keel_status status = keel_kernel_launch(stream.get(), kernel, &call);
  // A launch that reads |call| late finds no arguments, sizes of 0, and red-zone bytes.
  for (std::vector<std::byte>& copy : copies) std::fill(copy.begin(), copy.end(), kRedZone);
  std::fill(sizes.begin(), sizes.end(), 0);
  call = {};
  return status;
}

keel_status launch_number(const Stream& stream, const Module& module, std::byte* result,
                          uint64_t words, uint32_t first) {
  return launch(stream, module.kernel(), {{static_cast<uint32_t>(words / 128), 1, 1}, {128, 1, 1}},
                static_cast<void*>(result), first);
}

std::vector<std::byte> bytes_of(const void* data, uint64_t size) {
  const auto* bytes = static_cast<const std::byte*>(data);
  return {bytes, bytes + size};
}

std::vector<std::byte> numbers(uint64_t words, uint32_t first) {
  std::vector<uint32_t> values(words);
  for (uint64_t i = 0; i < words; ++i) values[i] = static_cast<uint32_t>(i) + first;
  return bytes_of(values.data(), words * sizeof(uint32_t));
}

}  // namespace keel::conformance
