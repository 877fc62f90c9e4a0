// SPDX-License-Identifier: Apache-2.0
// Crash: creating a stream while another one is alive writes to address 8. With KEEL_TEST_ABORTS
// set to "query" or "create_instance", that call aborts.
#include <atomic>
#include <cstdlib>
#include <keel/plugin_kit.hpp>
#include <string_view>

#include "conformance/faulty/plain_plugin.h"

namespace {

std::atomic<int> g_streams{0};

void abort_if(std::string_view call) {
  const char* const chosen = std::getenv("KEEL_TEST_ABORTS");
  if (chosen != nullptr && chosen == call) std::abort();
}

keel_status create_instance(const keel_instance_settings* settings,
                            keel_plugin_instance** out_instance) {
  abort_if("create_instance");
  return keel::faulty::plain_tables().create_instance(settings, out_instance);
}

keel_status create(keel_plugin_device* device, int32_t priority, keel_plugin_stream** out_stream) {
  if (g_streams.fetch_add(1) != 0) {
    keel::kit::log(KEEL_LOG_DEBUG, "faulty_crash: a second stream");
    volatile uintptr_t address = 8;
    *reinterpret_cast<volatile int*>(address) = 1;
  }
  return keel::faulty::plain_tables().stream.create(device, priority, out_stream);
}

void destroy(keel_plugin_stream* stream) {
  keel::faulty::plain_tables().stream.destroy(stream);
  g_streams.fetch_sub(1);
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  abort_if("query");
  keel::faulty::Tables tables = keel::faulty::plain_tables();
  tables.create_instance = create_instance;
  tables.stream.create = create;
  tables.stream.destroy = destroy;
  return keel::faulty::answer_query("faulty_crash", tables, host, out_plugin);
}
