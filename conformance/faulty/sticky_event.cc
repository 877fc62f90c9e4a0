// SPDX-License-Identifier: Apache-2.0
// Race: a completed event stays completed when recorded again.
#include <mutex>
#include <set>

#include "conformance/faulty/plain_plugin.h"

namespace {

std::mutex g_mutex;
std::set<keel_plugin_event*> g_done;

keel_status query(keel_plugin_event* event) {
  const std::lock_guard lock(g_mutex);
  if (g_done.count(event) != 0) return KEEL_OK;
  const keel_status status = keel::faulty::plain_tables().stream.event_query(event);
  if (status == KEEL_OK) g_done.insert(event);
  return status;
}

void destroy(keel_plugin_event* event) {
  const std::lock_guard lock(g_mutex);
  g_done.erase(event);
  keel::faulty::plain_tables().stream.event_destroy(event);
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::faulty::Tables tables = keel::faulty::plain_tables();
  tables.stream.event_query = query;
  tables.stream.event_destroy = destroy;
  return keel::faulty::answer_query("faulty_sticky_event", tables, host, out_plugin);
}
