// SPDX-License-Identifier: Apache-2.0
// Returns another device's memory: the nth block of a size is the same on both devices.
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "conformance/faulty/plain_plugin.h"

namespace {

struct Block {
  void* pointer;
  std::map<keel_plugin_device*, bool> taken;  // by device
};

std::mutex g_mutex;
std::map<uint64_t, std::vector<Block>> g_blocks;  // by size; never freed

keel_status alloc(keel_plugin_device* device, keel_memory_kind kind, uint64_t size, uint32_t usage,
                  void** out_pointer) {
  if (kind != KEEL_MEMORY_DEVICE || size > uint64_t{256} << 20) {
    return keel::faulty::plain_tables().memory.alloc(device, kind, size, usage, out_pointer);
  }
  const std::lock_guard lock(g_mutex);
  std::vector<Block>& blocks = g_blocks[size];
  for (Block& block : blocks) {
    bool& taken = block.taken[device];
    if (taken) continue;
    taken = true;
    *out_pointer = block.pointer;
    return KEEL_OK;
  }
  void* const pointer = std::aligned_alloc(256, (size + 255) / 256 * 256);
  if (pointer == nullptr) return KEEL_OUT_OF_MEMORY;
  blocks.push_back({pointer, {{device, true}}});
  *out_pointer = pointer;
  return KEEL_OK;
}

keel_status free_here(keel_plugin_device* device, keel_memory_kind kind, void* pointer) {
  const std::lock_guard lock(g_mutex);
  for (auto& [size, blocks] : g_blocks) {
    for (Block& block : blocks) {
      if (block.pointer != pointer) continue;
      block.taken[device] = false;
      return KEEL_OK;
    }
  }
  return keel::faulty::plain_tables().memory.free(device, kind, pointer);
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::faulty::Tables tables = keel::faulty::tables_of_two();
  tables.memory.alloc = alloc;
  tables.memory.free = free_here;
  return keel::faulty::answer_query("faulty_shared_memory", tables, host, out_plugin);
}
