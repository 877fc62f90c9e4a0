// SPDX-License-Identifier: Apache-2.0
// Early free: freeing a block also frees the block allocated after it, like two blocks in a segment
// with a wrong reference count. The contents of the second block are overwritten.
#include <cstring>
#include <mutex>
#include <vector>

#include "conformance/faulty/plain_plugin.h"

namespace {

struct Block {
  void* pointer;
  uint64_t size;
};

std::mutex g_mutex;
std::vector<Block> g_blocks;  // in allocation order

keel_status alloc(keel_plugin_device* device, keel_memory_kind kind, uint64_t size, uint32_t usage,
                  void** out_pointer) {
  const std::lock_guard lock(g_mutex);
  const keel_status status =
      keel::faulty::plain_tables().memory.alloc(device, kind, size, usage, out_pointer);
  if (status == KEEL_OK) g_blocks.push_back({*out_pointer, size});
  return status;
}

keel_status free_two(keel_plugin_device* device, keel_memory_kind kind, void* pointer) {
  const std::lock_guard lock(g_mutex);
  for (size_t i = 0; i < g_blocks.size(); ++i) {
    if (g_blocks[i].pointer != pointer) continue;
    g_blocks.erase(g_blocks.begin() + static_cast<std::ptrdiff_t>(i));
    if (i < g_blocks.size()) std::memset(g_blocks[i].pointer, 0xdd, g_blocks[i].size);
    break;
  }
  return keel::faulty::plain_tables().memory.free(device, kind, pointer);
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::faulty::Tables tables = keel::faulty::plain_tables();
  tables.memory.alloc = alloc;
  tables.memory.free = free_two;
  return keel::faulty::answer_query("faulty_early_free", tables, host, out_plugin);
}
