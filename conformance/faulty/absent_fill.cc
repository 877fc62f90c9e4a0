// SPDX-License-Identifier: Apache-2.0
// Absent fill: claims FILL without the slot.
#include "conformance/faulty/plain_plugin.h"

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::faulty::Tables tables = keel::faulty::plain_tables();
  tables.stream.fill = nullptr;
  return keel::faulty::answer_query("faulty_absent_fill", tables, host, out_plugin);
}
