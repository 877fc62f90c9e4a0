// SPDX-License-Identifier: Apache-2.0
// Lost failure: a stream fails with a pending event that it waits for, but the failure is returned
// only once.
#include <cstdint>
#include <mutex>
#include <set>
#include <utility>

#include "conformance/faulty/plain_plugin.h"

namespace {

const keel_stream_table& plain() {
  return keel::faulty::plain_tables().stream;
}

std::mutex g_mutex;
std::set<keel_plugin_stream*> g_failed;  // of these, no event has returned the failure
std::set<std::pair<keel_plugin_event*, keel_plugin_stream*>> g_recorded;

keel_status wait_event(keel_plugin_stream* stream, keel_plugin_event* event) {
  keel::faulty::enqueue(stream, [stream, event] {
    if (plain().event_wait(event, INT64_MAX) == KEEL_OK) return;
    const std::lock_guard lock(g_mutex);
    g_failed.insert(stream);
  });
  return KEEL_OK;
}

keel_status record(keel_plugin_event* event, keel_plugin_stream* stream) {
  {
    const std::lock_guard lock(g_mutex);
    g_recorded.emplace(event, stream);
  }
  return plain().event_record(event, stream);
}

keel_status query(keel_plugin_event* event) {
  const keel_status status = plain().event_query(event);
  if (status != KEEL_OK) return status;
  const std::lock_guard lock(g_mutex);
  for (auto each = g_failed.begin(); each != g_failed.end(); ++each) {
    if (g_recorded.count({event, *each}) == 0) continue;
    g_failed.erase(each);
    return KEEL_INTERNAL;
  }
  return KEEL_OK;
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::faulty::Tables tables = keel::faulty::plain_tables();
  tables.stream.stream_wait_event = wait_event;
  tables.stream.event_record = record;
  tables.stream.event_query = query;
  return keel::faulty::answer_query("faulty_forgetful_follower", tables, host, out_plugin);
}
