// SPDX-License-Identifier: Apache-2.0
// Race: a stream does not wait for another stream's event.
#include "conformance/faulty/plain_plugin.h"

namespace {

keel_status wait_event(keel_plugin_stream*, keel_plugin_event*) {
  return KEEL_OK;
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::faulty::Tables tables = keel::faulty::plain_tables();
  tables.stream.stream_wait_event = wait_event;
  return keel::faulty::answer_query("faulty_lost_wait", tables, host, out_plugin);
}
