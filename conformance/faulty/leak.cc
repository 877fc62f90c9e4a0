// SPDX-License-Identifier: Apache-2.0
// Leak: free() keeps the memory allocated.
#include "conformance/faulty/plain_plugin.h"

namespace {

keel_status keep(keel_plugin_device*, keel_memory_kind, void*) {
  return KEEL_OK;
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::faulty::Tables tables = keel::faulty::plain_tables();
  tables.memory.free = keep;
  return keel::faulty::answer_query("faulty_leak", tables, host, out_plugin);
}
