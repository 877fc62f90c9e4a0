// SPDX-License-Identifier: Apache-2.0
// Race: all copies share one argument buffer; a copy that a second thread enqueues during another
// thread's copy() is lost.
#include <atomic>
#include <thread>

#include "conformance/faulty/plain_plugin.h"

namespace {

std::atomic<int> g_inside{0};

keel_status copy(keel_plugin_stream* stream, keel_copy_kind kind, void* destination,
                 const void* source, uint64_t size) {
  const bool alone = g_inside.fetch_add(1) == 0;
  // Long enough for other threads to enter, even on few cores.
  for (int i = 0; i < 20; ++i) std::this_thread::yield();
  const keel_status status =
      alone ? keel::faulty::plain_tables().stream.copy(stream, kind, destination, source, size)
            : KEEL_OK;
  g_inside.fetch_sub(1);
  return status;
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::faulty::Tables tables = keel::faulty::plain_tables();
  tables.stream.copy = copy;
  return keel::faulty::answer_query("faulty_not_reentrant", tables, host, out_plugin);
}
