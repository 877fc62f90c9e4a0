// SPDX-License-Identifier: Apache-2.0
// Race: an event completes as soon as it is recorded, regardless of queued work.
#include "conformance/faulty/plain_plugin.h"

namespace {

keel_status record(keel_plugin_event* event, keel_plugin_stream*) {
  keel::faulty::signal_now(event);
  return KEEL_OK;
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::faulty::Tables tables = keel::faulty::plain_tables();
  tables.stream.event_record = record;
  return keel::faulty::answer_query("faulty_early_event", tables, host, out_plugin);
}
