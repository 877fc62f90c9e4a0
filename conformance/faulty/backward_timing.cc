// SPDX-License-Identifier: Apache-2.0
// Negative timing: measures from the end event to the start event.
#include "conformance/faulty/plain_plugin.h"

namespace {

keel_status elapsed(keel_plugin_event* start, keel_plugin_event* end, uint64_t* out_nanoseconds) {
  return keel::faulty::plain_tables().stream.event_elapsed(end, start, out_nanoseconds);
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::faulty::Tables tables = keel::faulty::plain_tables();
  tables.stream.event_elapsed = elapsed;
  return keel::faulty::answer_query("faulty_backward_timing", tables, host, out_plugin);
}
