// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/memory.h"

#include <keel/plugin_kit.hpp>
#include <mutex>

#include "backends/vulkan/result.h"

namespace keel::vulkan {

namespace {

uintptr_t key_of(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

void* to_pointer(uint64_t address) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
}

}  // namespace

Memory::~Memory() {
  for (const Map* map : {&device_blocks_, &pinned_blocks_, &registered_blocks_}) {
    for (const auto& [address, block] : *map) destroy(block);
  }
}

keel_status Memory::bind(uint32_t memory_type, uint64_t size, void* import, Block* out_block) {
  VkExternalMemoryBufferCreateInfo external = {};
  external.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO;
  external.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
  VkBufferCreateInfo buffer_info = {};
  buffer_info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  buffer_info.pNext = import != nullptr ? &external : nullptr;
  buffer_info.size = size;
  buffer_info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                      VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
  if (physical_.max_texels != 0) buffer_info.usage |= VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT;
  Block block;
  block.size = size;
  VkResult result = vk_.CreateBuffer(device_, &buffer_info, nullptr, &block.buffer);
  if (result != VK_SUCCESS) return to_status(result, "vkCreateBuffer");

  VkMemoryRequirements needs = {};
  vk_.GetBufferMemoryRequirements(device_, block.buffer, &needs);
  VkImportMemoryHostPointerInfoEXT import_info = {};
  import_info.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT;
  import_info.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
  import_info.pHostPointer = import;
  VkMemoryAllocateFlagsInfo flags = {};
  flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
  flags.pNext = import != nullptr ? &import_info : nullptr;
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  VkMemoryAllocateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  info.pNext = &flags;
  info.allocationSize = import != nullptr ? size : needs.size;
  info.memoryTypeIndex = memory_type;
  result = vk_.AllocateMemory(device_, &info, nullptr, &block.memory);
  if (result == VK_SUCCESS) result = vk_.BindBufferMemory(device_, block.buffer, block.memory, 0);
  if (result != VK_SUCCESS) {
    destroy(block);
    return to_status(result, "vkAllocateMemory");
  }

  VkBufferDeviceAddressInfo address = {};
  address.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO;
  address.buffer = block.buffer;
  block.device_address = vk_.GetBufferDeviceAddress(device_, &address);
  *out_block = block;
  return KEEL_OK;
}

keel_status Memory::create(keel_memory_kind kind, uint64_t size, Block* out_block) {
  if (size > physical_.info.max_alloc_bytes) {
    return kit::fail(KEEL_OUT_OF_MEMORY,
                     "alloc: %llu bytes are more than the device's largest %llu",
                     static_cast<unsigned long long>(size),
                     static_cast<unsigned long long>(physical_.info.max_alloc_bytes));
  }
  const bool pinned = kind == KEEL_MEMORY_PINNED;
  // Whole words, so that kernels may access the last word of an odd size.
  const uint64_t padded = (size + 15) & ~uint64_t{15};
  Block block;
  keel_status status = bind(pinned ? physical_.pinned_memory_type : physical_.device_memory_type,
                            padded, nullptr, &block);
  if (status != KEEL_OK) return status;
  block.size = size;
  if (pinned || physical_.host_reaches_device_memory) {
    const VkResult result = vk_.MapMemory(device_, block.memory, 0, VK_WHOLE_SIZE, 0, &block.host);
    status = to_status(result, "vkMapMemory");
  }
  if (status == KEEL_OK && !pinned) status = create_views(padded, &block);
  if (status == KEEL_OK && block.device_address % physical_.info.alignment != 0) {
    status = kit::fail(KEEL_INTERNAL, "alloc: the driver gave memory that is not aligned");
  }
  if (status != KEEL_OK) {
    destroy(block);
    return status;
  }
  *out_block = block;
  return KEEL_OK;
}

keel_status Memory::create_views(uint64_t size, Block* block) {
  const auto create = [&](VkFormat format, uint64_t texel_bytes, VkBufferView* out_view) {
    if (size / texel_bytes > physical_.max_texels) return VK_SUCCESS;
    VkBufferViewCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO;
    info.buffer = block->buffer;
    info.format = format;
    info.range = VK_WHOLE_SIZE;
    return vk_.CreateBufferView(device_, &info, nullptr, out_view);
  };
  VkResult result = create(VK_FORMAT_R32G32B32A32_SFLOAT, 16, &block->vectors);
  if (result == VK_SUCCESS) result = create(VK_FORMAT_R32_SFLOAT, 4, &block->scalars);
  return to_status(result, "vkCreateBufferView");
}

void Memory::destroy(const Block& block) {
  // Freeing memory unmaps it.
  vk_.DestroyBufferView(device_, block.vectors, nullptr);
  vk_.DestroyBufferView(device_, block.scalars, nullptr);
  vk_.DestroyBuffer(device_, block.buffer, nullptr);
  vk_.FreeMemory(device_, block.memory, nullptr);
}

keel_status Memory::allocate(keel_memory_kind kind, uint64_t size, void** out_pointer) {
  if (kind != KEEL_MEMORY_DEVICE && kind != KEEL_MEMORY_PINNED) {
    return kit::fail(KEEL_UNSUPPORTED, "alloc: Vulkan has no managed memory");
  }
  Block block;
  const keel_status status = create(kind, size, &block);
  if (status != KEEL_OK) return status;
  const bool pinned = kind == KEEL_MEMORY_PINNED;
  void* pointer = pinned ? block.host : to_pointer(block.device_address);
  const std::unique_lock lock(mutex_);
  (pinned ? pinned_blocks_ : device_blocks_).emplace(key_of(pointer), block);
  *out_pointer = pointer;
  return KEEL_OK;
}

keel_status Memory::erase(Map* map, void* pointer) {
  Block block;
  {
    const std::unique_lock lock(mutex_);
    const auto found = map->find(key_of(pointer));
    if (found == map->end()) {
      return kit::fail(KEEL_INVALID_ARGUMENT, "%p is not the start of a block", pointer);
    }
    block = found->second;
    map->erase(found);
  }
  destroy(block);
  return KEEL_OK;
}

keel_status Memory::free(keel_memory_kind kind, void* pointer) {
  return erase(kind == KEEL_MEMORY_PINNED ? &pinned_blocks_ : &device_blocks_, pointer);
}

keel_status Memory::register_host(void* pointer, uint64_t size, void** out_device_pointer) {
  const uint64_t alignment = physical_.import_alignment;
  if (alignment == 0) {
    return kit::fail(KEEL_UNSUPPORTED, "the device lacks VK_EXT_external_memory_host");
  }
  const uintptr_t begin = key_of(pointer) & ~(alignment - 1);
  const uintptr_t end = (key_of(pointer) + size + alignment - 1) & ~(alignment - 1);

  constexpr auto kHandle = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
  VkMemoryHostPointerPropertiesEXT properties = {};
  properties.sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT;
  const VkResult result =
      vk_.GetMemoryHostPointerPropertiesEXT(device_, kHandle, to_pointer(begin), &properties);
  if (result != VK_SUCCESS) return to_status(result, "vkGetMemoryHostPointerPropertiesEXT");
  // Prefers the type of pinned memory, which the driver caches for the host.
  uint32_t bits = properties.memoryTypeBits;
  if (bits == 0) return kit::fail(KEEL_UNSUPPORTED, "the driver cannot import this host memory");
  if ((bits >> physical_.pinned_memory_type & 1u) != 0) bits = 1u << physical_.pinned_memory_type;
  Block block;
  const keel_status status =
      bind(static_cast<uint32_t>(__builtin_ctz(bits)), end - begin, to_pointer(begin), &block);
  if (status != KEEL_OK) return status;
  block.size = size;
  block.offset = key_of(pointer) - begin;
  block.device_address += block.offset;
  block.host = pointer;
  {
    const std::unique_lock lock(mutex_);
    if (registered_blocks_.emplace(key_of(pointer), block).second) {
      if (out_device_pointer != nullptr) *out_device_pointer = to_pointer(block.device_address);
      return KEEL_OK;
    }
  }
  destroy(block);
  return kit::fail(KEEL_ALREADY_EXISTS, "%p is registered already", pointer);
}

keel_status Memory::unregister_host(void* pointer) {
  return erase(&registered_blocks_, pointer);
}

bool Memory::find(const Map& map, const void* pointer, uint64_t size, BufferByte* out_place) const {
  auto next = map.upper_bound(key_of(pointer));
  if (next == map.begin()) return false;
  const auto& [begin, block] = *--next;
  const uint64_t into = key_of(pointer) - begin;
  if (into > block.size || size > block.size - into) return false;
  out_place->buffer = block.buffer;
  out_place->offset = block.offset + into;
  out_place->host = block.host == nullptr ? nullptr : static_cast<char*>(block.host) + into;
  out_place->vectors = block.vectors;
  out_place->scalars = block.scalars;
  return true;
}

bool Memory::find_device(const void* pointer, uint64_t size, BufferByte* out_place) const {
  const std::shared_lock lock(mutex_);
  return find(device_blocks_, pointer, size, out_place);
}

bool Memory::find_host(const void* pointer, uint64_t size, BufferByte* out_place) const {
  const std::shared_lock lock(mutex_);
  return find(pinned_blocks_, pointer, size, out_place) ||
         find(registered_blocks_, pointer, size, out_place);
}

}  // namespace keel::vulkan
