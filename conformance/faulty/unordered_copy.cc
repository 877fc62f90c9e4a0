// SPDX-License-Identifier: Apache-2.0
// Race: a copy ignores its stream and runs at once.
#include <cstring>

#include "conformance/faulty/plain_plugin.h"

namespace {

keel_status copy(keel_plugin_stream*, keel_copy_kind, void* destination, const void* source,
                 uint64_t size) {
  std::memcpy(destination, source, size);
  return KEEL_OK;
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::faulty::Tables tables = keel::faulty::plain_tables();
  tables.stream.copy = copy;
  return keel::faulty::answer_query("faulty_unordered_copy", tables, host, out_plugin);
}
