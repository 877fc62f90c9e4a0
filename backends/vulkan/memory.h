// SPDX-License-Identifier: Apache-2.0
// Allocations of a device, and the maps from addresses to VkBuffers.
//
// Kernels take addresses (bufferDeviceAddress), copy commands take buffers. Each block is therefore
// a buffer bound to its own memory, and is looked up by address range: by device address for device
// memory, by host address for pinned and registered host memory.
#ifndef KEEL_BACKENDS_VULKAN_MEMORY_H_
#define KEEL_BACKENDS_VULKAN_MEMORY_H_

#include <keel/abi.h>

#include <cstdint>
#include <map>
#include <shared_mutex>

#include "backends/vulkan/physical_device.h"
#include "backends/vulkan/vulkan_functions.h"

namespace keel::vulkan {

// One VkBuffer with its own VkDeviceMemory.
struct Block {
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  uint64_t size = 0;            // bytes requested by the caller
  uint64_t offset = 0;          // of the caller's first byte in the buffer
  uint64_t device_address = 0;  // of the caller's first byte
  void* host = nullptr;         // host address of the same byte; NULL when unmapped
  // The whole buffer as texels of four floats, and of one float. VK_NULL_HANDLE if the device does
  // not use texels or the block is too large.
  VkBufferView vectors = VK_NULL_HANDLE;
  VkBufferView scalars = VK_NULL_HANDLE;
};

// The position of a byte in a block, as copy commands take it.
struct BufferByte {
  VkBuffer buffer = VK_NULL_HANDLE;
  uint64_t offset = 0;
  void* host = nullptr;  // NULL if the host cannot access the byte
  VkBufferView vectors = VK_NULL_HANDLE;
  VkBufferView scalars = VK_NULL_HANDLE;
};

// Thread-safe.
class Memory {
 public:
  Memory(const DeviceFunctions& vk, VkDevice device, const PhysicalDevice& physical)
      : vk_(vk), device_(device), physical_(physical) {}
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Returns a device address for device memory and a host address for pinned memory. On failure
  // returns KEEL_OUT_OF_MEMORY and keeps nothing allocated.
  keel_status allocate(keel_memory_kind kind, uint64_t size, void** out_pointer);
  keel_status free(keel_memory_kind kind, void* pointer);

  // Imports the caller's pages; the range is widened to whole pages.
  keel_status register_host(void* pointer, uint64_t size, void** out_device_pointer);
  keel_status unregister_host(void* pointer);

  // Find the block that contains all |size| bytes at a device address, or at a host address of
  // pinned or registered memory. Return false if no block does.
  bool find_device(const void* pointer, uint64_t size, BufferByte* out_place) const;
  bool find_host(const void* pointer, uint64_t size, BufferByte* out_place) const;

  // Creates a pinned block for staging, which no map contains.
  keel_status create_pinned(uint64_t size, Block* out_block) {
    return create(KEEL_MEMORY_PINNED, size, out_block);
  }
  void destroy(const Block& block);

 private:
  using Map = std::map<uintptr_t, Block>;

  keel_status create(keel_memory_kind kind, uint64_t size, Block* out_block);
  // Binds a new buffer to new memory, or to imported host memory if |import| is not NULL.
  keel_status bind(uint32_t memory_type, uint64_t size, void* import, Block* out_block);
  keel_status create_views(uint64_t size, Block* block);
  bool find(const Map& map, const void* pointer, uint64_t size, BufferByte* out_place) const;
  keel_status erase(Map* map, void* pointer);

  const DeviceFunctions& vk_;
  const VkDevice device_;
  const PhysicalDevice& physical_;
  mutable std::shared_mutex mutex_;
  Map device_blocks_;      // by device address
  Map pinned_blocks_;      // by host address
  Map registered_blocks_;  // by host address
};

}  // namespace keel::vulkan

#endif  // KEEL_BACKENDS_VULKAN_MEMORY_H_
