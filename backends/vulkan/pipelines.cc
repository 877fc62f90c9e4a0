// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/pipelines.h"

#include <algorithm>
#include <vector>

#include "backends/vulkan/cache_file.h"
#include "backends/vulkan/float_controls.h"
#include "backends/vulkan/result.h"

namespace keel::vulkan {

namespace {

// Layout of the specialisation constants shared by all shaders.
struct Constants {
  uint32_t local_size;    // constant_id 0: invocations of a workgroup, along x
  VkBool32 one_subgroup;  // constant_id 1: a workgroup is one subgroup; no barrier needed
  uint32_t variant;       // constant_id 2
};

}  // namespace

Pipelines::~Pipelines() {
  if (changed_) save_cache();
  for (auto& variants : pipelines_) {
    for (auto& pipeline : variants) vk_.DestroyPipeline(device_, pipeline.load(), nullptr);
  }
  vk_.DestroyPipelineCache(device_, cache_, nullptr);
  vk_.DestroyPipelineLayout(device_, layout_, nullptr);
  vk_.DestroyDescriptorSetLayout(device_, texels_, nullptr);
}

keel_status Pipelines::open() {
  if (physical_.max_texels != 0) {
    std::array<VkDescriptorSetLayoutBinding, 2> bindings = {};
    for (uint32_t i = 0; i < bindings.size(); ++i) {
      bindings[i].binding = i;
      bindings[i].descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER;
      bindings[i].descriptorCount = 1;
      bindings[i].stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
    }
    VkDescriptorSetLayoutCreateInfo texel_info = {};
    texel_info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
    texel_info.flags = VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR;
    texel_info.bindingCount = bindings.size();
    texel_info.pBindings = bindings.data();
    const keel_status made =
        to_status(vk_.CreateDescriptorSetLayout(device_, &texel_info, nullptr, &texels_),
                  "vkCreateDescriptorSetLayout");
    if (made != KEEL_OK) return made;
  }
  VkPushConstantRange range = {};
  range.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
  range.size = kPushConstantBytes;
  VkPipelineLayoutCreateInfo layout_info = {};
  layout_info.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  layout_info.setLayoutCount = texels_ == VK_NULL_HANDLE ? 0 : 1;
  layout_info.pSetLayouts = &texels_;
  layout_info.pushConstantRangeCount = 1;
  layout_info.pPushConstantRanges = &range;
  keel_status status = to_status(vk_.CreatePipelineLayout(device_, &layout_info, nullptr, &layout_),
                                 "vkCreatePipelineLayout");
  if (status != KEEL_OK) return status;

  // Drivers must refuse foreign data, but some trust the contents behind a valid header: the file
  // name and the header are checked here too.
  std::vector<uint8_t> data = read_cache_file(cache_path());
  if (data.size() < sizeof(VkPipelineCacheHeaderVersionOne) ||
      !std::equal(std::begin(physical_.pipeline_cache_uuid),
                  std::end(physical_.pipeline_cache_uuid),
                  data.data() + offsetof(VkPipelineCacheHeaderVersionOne, pipelineCacheUUID))) {
    data.clear();
  }
  VkPipelineCacheCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
  info.initialDataSize = data.size();
  info.pInitialData = data.data();
  VkResult result = vk_.CreatePipelineCache(device_, &info, nullptr, &cache_);
  if (result != VK_SUCCESS && !data.empty()) {
    info.initialDataSize = 0;
    info.pInitialData = nullptr;
    result = vk_.CreatePipelineCache(device_, &info, nullptr, &cache_);
  }
  return to_status(result, "vkCreatePipelineCache");
}

uint32_t Pipelines::local_size(Shader shader) const {
  const ShaderCode code = shader_code(shader);
  switch (code.shape) {
    case WorkgroupShape::kFixed:
      return code.local_size;
    case WorkgroupShape::kSubgroup:
      return std::min(physical_.subgroup_size, 64u);
    case WorkgroupShape::kReduction:
      // On a CPU a barrier turns the subgroups into coroutines; a single subgroup needs no barrier.
      return physical_.is_cpu() ? physical_.subgroup_size : 256;
    case WorkgroupShape::kElements:
      return physical_.is_cpu() ? 64 : 256;
  }
  return 64;
}

keel_status Pipelines::get(PipelineKey key, VkPipeline* out_pipeline) {
  std::atomic<VkPipeline>& slot = pipelines_[static_cast<uint32_t>(key.shader)][key.variant];
  *out_pipeline = slot.load(std::memory_order_acquire);
  if (*out_pipeline != VK_NULL_HANDLE) return KEEL_OK;
  const std::lock_guard lock(mutex_);
  *out_pipeline = slot.load(std::memory_order_acquire);
  if (*out_pipeline != VK_NULL_HANDLE) return KEEL_OK;
  const keel_status status = create(key, out_pipeline);
  if (status == KEEL_OK) slot.store(*out_pipeline, std::memory_order_release);
  return status;
}

keel_status Pipelines::create(PipelineKey key, VkPipeline* out_pipeline) {
  const ShaderCode code = shader_code(key.shader);
  const std::vector<uint32_t> spirv =
      with_float_controls({code.spirv, code.words}, physical_.float_controls);
  VkShaderModuleCreateInfo module_info = {};
  module_info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  module_info.codeSize = spirv.size() * sizeof(uint32_t);
  module_info.pCode = spirv.data();
  VkShaderModule module = VK_NULL_HANDLE;
  VkResult result = vk_.CreateShaderModule(device_, &module_info, nullptr, &module);
  if (result != VK_SUCCESS) return to_status(result, "vkCreateShaderModule");

  const uint32_t local = local_size(key.shader);
  const Constants constants = {local, local <= physical_.subgroup_size ? VK_TRUE : VK_FALSE,
                               key.variant};
  const std::array<VkSpecializationMapEntry, 3> entries = {
      {{0, offsetof(Constants, local_size), sizeof(uint32_t)},
       {1, offsetof(Constants, one_subgroup), sizeof(VkBool32)},
       {2, offsetof(Constants, variant), sizeof(uint32_t)}}};
  VkSpecializationInfo specialization = {};
  specialization.mapEntryCount = entries.size();
  specialization.pMapEntries = entries.data();
  specialization.dataSize = sizeof(constants);
  specialization.pData = &constants;
  VkComputePipelineCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module;
  info.stage.pName = "main";
  info.stage.pSpecializationInfo = &specialization;
  info.layout = layout_;
  result = vk_.CreateComputePipelines(device_, cache_, 1, &info, nullptr, out_pipeline);
  vk_.DestroyShaderModule(device_, module, nullptr);
  changed_ |= result == VK_SUCCESS;
  return to_status(result, "vkCreateComputePipelines");
}

std::string Pipelines::cache_path() const {
  std::string name = "vulkan-";
  for (uint8_t byte : physical_.pipeline_cache_uuid) {
    constexpr const char* kDigits = "0123456789abcdef";
    name += kDigits[byte >> 4];
    name += kDigits[byte & 15];
  }
  return cache_file_path(name + ".bin");
}

void Pipelines::save_cache() const {
  size_t size = 0;
  if (vk_.GetPipelineCacheData(device_, cache_, &size, nullptr) != VK_SUCCESS) return;
  // Data of only a header means that the driver caches nothing: lavapipe.
  if (size <= sizeof(VkPipelineCacheHeaderVersionOne)) return;
  std::vector<uint8_t> data(size);
  if (vk_.GetPipelineCacheData(device_, cache_, &size, data.data()) != VK_SUCCESS) return;
  data.resize(size);
  write_cache_file(cache_path(), data);
}

}  // namespace keel::vulkan
