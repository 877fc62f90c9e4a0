// SPDX-License-Identifier: Apache-2.0
// Late free: frees a block only after four more blocks have been freed.
#include <deque>
#include <mutex>

#include "conformance/faulty/plain_plugin.h"

namespace {

std::mutex g_mutex;
std::deque<void*> g_kept;  // closing the device leaks the remaining blocks

keel_status free_former(keel_plugin_device* device, keel_memory_kind kind, void* pointer) {
  const std::lock_guard lock(g_mutex);
  g_kept.push_back(pointer);
  if (g_kept.size() <= 4) return KEEL_OK;
  void* const former = g_kept.front();
  g_kept.pop_front();
  return keel::faulty::plain_tables().memory.free(device, kind, former);
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::faulty::Tables tables = keel::faulty::plain_tables();
  tables.memory.free = free_former;
  return keel::faulty::answer_query("faulty_late_free", tables, host, out_plugin);
}
