// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/module.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "backends/vulkan/result.h"

namespace keel::vulkan {

namespace {

// Whether a kernel may declare the SPIR-V capability (specification, 3.31) on |device|.
bool allows(const PhysicalDevice& device, uint32_t capability) {
  const PhysicalDevice::KernelLimits& limits = device.kernels;
  const auto subgroup = [&](VkSubgroupFeatureFlags operations) {
    return (limits.subgroup_operations & operations) != 0;
  };
  switch (capability) {
    case 0:     // Matrix
    case 1:     // Shader
    case 5347:  // PhysicalStorageBufferAddresses
      return true;
    case 9:  // Float16
      return limits.float16;
    case 10:  // Float64
      return limits.float64;
    case 11:  // Int64
      return limits.int64;
    case 22:  // Int16
      return limits.int16;
    case 39:  // Int8
      return limits.int8;
    case 61:  // GroupNonUniform
      return subgroup(VK_SUBGROUP_FEATURE_BASIC_BIT);
    case 62:
      return subgroup(VK_SUBGROUP_FEATURE_VOTE_BIT);
    case 63:
      return subgroup(VK_SUBGROUP_FEATURE_ARITHMETIC_BIT);
    case 64:
      return subgroup(VK_SUBGROUP_FEATURE_BALLOT_BIT);
    case 65:
      return subgroup(VK_SUBGROUP_FEATURE_SHUFFLE_BIT);
    case 66:
      return subgroup(VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT);
    case 67:
      return subgroup(VK_SUBGROUP_FEATURE_CLUSTERED_BIT);
    case 68:
      return subgroup(VK_SUBGROUP_FEATURE_QUAD_BIT);
    case 4433:  // StorageBuffer16BitAccess
      return device.storage_16bit;
    case 4448:  // StorageBuffer8BitAccess
      return limits.storage_8bit;
    default:
      return false;
  }
}

}  // namespace

// ---- Kernel --------------------------------------------------------------------------

Kernel::~Kernel() {
  const DeviceFunctions& vk = module_.device().functions();
  const VkDevice device = module_.device().handle();
  for (const Variant& variant : variants_) vk.DestroyPipeline(device, variant.pipeline, nullptr);
  vk.DestroyPipelineLayout(device, layout_, nullptr);
}

keel_status Kernel::open() {
  const uint32_t limit =
      std::min(module_.device().physical().kernels.push_constant_bytes, kMaxArgumentBytes);
  if (!description_.arguments.empty()) {
    const SpirvArgument& last = description_.arguments.back();
    argument_bytes_ = (last.offset + last.size + 3) / 4 * 4;
  }
  if (argument_bytes_ > limit) {
    return kit::fail(KEEL_INVALID_ARGUMENT,
                     "vulkan: kernel '%s' has %u bytes of push constants, the device takes %u",
                     name().c_str(), argument_bytes_, limit);
  }
  VkPushConstantRange range = {};
  range.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
  range.size = argument_bytes_;
  VkPipelineLayoutCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  info.pushConstantRangeCount = argument_bytes_ == 0 ? 0 : 1;
  info.pPushConstantRanges = &range;
  const Device& device = module_.device();
  return to_status(
      device.functions().CreatePipelineLayout(device.handle(), &info, nullptr, &layout_),
      "vkCreatePipelineLayout");
}

keel_status Kernel::check_block(const keel_launch& launch) const {
  const PhysicalDevice::KernelLimits& limits = module_.device().physical().kernels;
  if (launch.dynamic_shared_bytes != 0) {
    return kit::fail(KEEL_INVALID_ARGUMENT,
                     "vulkan: launch.dynamic_shared_bytes is %u; shared memory is declared in the "
                     "module",
                     launch.dynamic_shared_bytes);
  }
  uint64_t invocations = 1;
  for (uint32_t axis = 0; axis < 3; ++axis) {
    const SpirvExtent& extent = description_.workgroup[axis];
    const uint32_t block = launch.block[axis];
    if (!extent.specialised && block != extent.value) {
      return kit::fail(KEEL_INVALID_ARGUMENT,
                       "vulkan: launch.block[%u] is %u, kernel '%s' was compiled for %u", axis,
                       block, name().c_str(), extent.value);
    }
    if (block > limits.workgroup[axis]) {
      return kit::fail(KEEL_INVALID_ARGUMENT, "vulkan: launch.block[%u] is %u, at most %u", axis,
                       block, limits.workgroup[axis]);
    }
    if (launch.grid[axis] > limits.groups[axis]) {
      return kit::fail(KEEL_INVALID_ARGUMENT, "vulkan: launch.grid[%u] is %u, at most %u", axis,
                       launch.grid[axis], limits.groups[axis]);
    }
    invocations *= block;
  }
  if (invocations > limits.invocations) {
    return kit::fail(KEEL_INVALID_ARGUMENT, "vulkan: launch.block has %llu threads, at most %u",
                     static_cast<unsigned long long>(invocations), limits.invocations);
  }
  return KEEL_OK;
}

keel_status Kernel::pack(const keel_launch& launch, std::byte* out_arguments) const {
  const auto& wanted = description_.arguments;
  if (launch.argument_count != wanted.size()) {
    return kit::fail(KEEL_INVALID_ARGUMENT,
                     "vulkan: launch.argument_count is %u, kernel '%s' takes %zu",
                     launch.argument_count, name().c_str(), wanted.size());
  }
  for (uint32_t i = 0; i < launch.argument_count; ++i) {
    if (launch.argument_sizes[i] != wanted[i].size) {
      return kit::fail(KEEL_INVALID_ARGUMENT,
                       "vulkan: launch.argument_sizes[%u] is %u, kernel '%s' takes %u bytes", i,
                       launch.argument_sizes[i], name().c_str(), wanted[i].size);
    }
    std::memcpy(out_arguments + wanted[i].offset, launch.arguments[i], wanted[i].size);
  }
  return KEEL_OK;
}

keel_status Kernel::get_pipeline(const Block& block, VkPipeline* out_pipeline) {
  const std::lock_guard lock(mutex_);
  for (const Variant& variant : variants_) {
    if (variant.block != block) continue;
    *out_pipeline = variant.pipeline;
    return KEEL_OK;
  }
  variants_.reserve(variants_.size() + 1);  // the push_back after compiling cannot fail
  const keel_status status = create_pipeline(block, out_pipeline);
  if (status == KEEL_OK) variants_.push_back({block, *out_pipeline});
  return status;
}

keel_status Kernel::create_pipeline(const Block& block, VkPipeline* out_pipeline) const {
  std::array<VkSpecializationMapEntry, 3> entries = {};
  uint32_t count = 0;
  for (uint32_t axis = 0; axis < 3; ++axis) {
    const SpirvExtent& extent = description_.workgroup[axis];
    if (!extent.specialised) continue;
    entries[count++] = {extent.constant_id, axis * uint32_t{sizeof(uint32_t)}, sizeof(uint32_t)};
  }
  VkSpecializationInfo specialization = {};
  specialization.mapEntryCount = count;
  specialization.pMapEntries = entries.data();
  specialization.dataSize = sizeof(block);
  specialization.pData = block.data();
  VkComputePipelineCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module_.handle();
  info.stage.pName = description_.name.c_str();
  info.stage.pSpecializationInfo = &specialization;
  info.layout = layout_;
  Device& device = module_.device();
  return to_status(
      device.functions().CreateComputePipelines(device.handle(), device.pipelines().cache(), 1,
                                                &info, nullptr, out_pipeline),
      "vkCreateComputePipelines");
}

keel_status Kernel::launch(Stream& stream, const keel_launch& launch) {
  keel_status status = check_block(launch);
  std::array<std::byte, kMaxArgumentBytes> arguments = {};
  if (status == KEEL_OK) status = pack(launch, arguments.data());
  VkPipeline pipeline = VK_NULL_HANDLE;
  if (status == KEEL_OK) {
    status = get_pipeline({launch.block[0], launch.block[1], launch.block[2]}, &pipeline);
  }
  if (status != KEEL_OK) return status;
  return stream.dispatch({pipeline,
                          layout_,
                          arguments.data(),
                          argument_bytes_,
                          {launch.grid[0], launch.grid[1], launch.grid[2]}});
}

// ---- Module --------------------------------------------------------------------------

keel_status Module::load(Device& device, keel_binary_format format, const void* data, uint64_t size,
                         std::unique_ptr<Module>* out_module) {
  if (format != KEEL_BINARY_SPIRV) {
    return kit::fail(KEEL_UNSUPPORTED, "vulkan: loads KEEL_BINARY_SPIRV, not format %u", format);
  }
  SpirvModule description;
  keel_status status = read_spirv(data, size, &description);
  if (status == KEEL_OK) status = validate_spirv(data, size);
  if (status != KEEL_OK) return status;
  for (uint32_t capability : description.capabilities) {
    if (allows(device.physical(), capability)) continue;
    return kit::fail(
        KEEL_INVALID_ARGUMENT,
        "vulkan: the SPIR-V module wants capability %u, which the device does not have",
        capability);
  }
  std::unique_ptr<Module> module(new Module(device));
  std::vector<uint32_t> words(size / sizeof(uint32_t));  // |data| need not be aligned
  std::memcpy(words.data(), data, size);
  VkShaderModuleCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  info.codeSize = size;
  info.pCode = words.data();
  status = to_status(
      device.functions().CreateShaderModule(device.handle(), &info, nullptr, &module->handle_),
      "vkCreateShaderModule");
  for (SpirvKernel& kernel : description.kernels) {
    if (status != KEEL_OK) return status;
    module->kernels_.push_back(std::make_unique<Kernel>(*module, std::move(kernel)));
    status = module->kernels_.back()->open();
  }
  if (status == KEEL_OK) *out_module = std::move(module);
  return status;
}

Module::~Module() {
  kernels_.clear();
  device_.functions().DestroyShaderModule(device_.handle(), handle_, nullptr);
}

Kernel* Module::find(const char* name) const {
  for (const auto& kernel : kernels_) {
    if (kernel->name() == name) return kernel.get();
  }
  return nullptr;
}

}  // namespace keel::vulkan
