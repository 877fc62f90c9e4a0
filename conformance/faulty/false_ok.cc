// SPDX-License-Identifier: Apache-2.0
// False status: a failed allocation returns KEEL_OK.
#include "conformance/faulty/plain_plugin.h"

namespace {

keel_status alloc(keel_plugin_device* device, keel_memory_kind kind, uint64_t size, uint32_t usage,
                  void** out_pointer) {
  const keel_status status =
      keel::faulty::plain_tables().memory.alloc(device, kind, size, usage, out_pointer);
  if (status == KEEL_OUT_OF_MEMORY) *out_pointer = nullptr;
  return status == KEEL_OUT_OF_MEMORY ? KEEL_OK : status;
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::faulty::Tables tables = keel::faulty::plain_tables();
  tables.memory.alloc = alloc;
  return keel::faulty::answer_query("faulty_false_ok", tables, host, out_plugin);
}
