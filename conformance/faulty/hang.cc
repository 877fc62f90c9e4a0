// SPDX-License-Identifier: Apache-2.0
// Hang: a wait whose deadline passes never returns.
#include <unistd.h>

#include "conformance/faulty/plain_plugin.h"

namespace {

keel_status wait(keel_plugin_event* event, int64_t timeout_ns) {
  const keel_status status = keel::faulty::plain_tables().stream.event_wait(event, timeout_ns);
  while (status == KEEL_TIMED_OUT) pause();
  return status;
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::faulty::Tables tables = keel::faulty::plain_tables();
  tables.stream.event_wait = wait;
  return keel::faulty::answer_query("faulty_hang", tables, host, out_plugin);
}
