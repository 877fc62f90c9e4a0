// SPDX-License-Identifier: Apache-2.0
// Ignores deadlines: a wait returns only when the event has completed.
#include <cstdint>

#include "conformance/faulty/plain_plugin.h"

namespace {

keel_status wait(keel_plugin_event* event, int64_t) {
  return keel::faulty::plain_tables().stream.event_wait(event, INT64_MAX);
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::faulty::Tables tables = keel::faulty::plain_tables();
  tables.stream.event_wait = wait;
  return keel::faulty::answer_query("faulty_ignores_deadline", tables, host, out_plugin);
}
