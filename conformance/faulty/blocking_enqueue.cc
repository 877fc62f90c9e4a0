// SPDX-License-Identifier: Apache-2.0
// Reports ASYNC, but fill() blocks until the fill is done.
#include <future>

#include "conformance/faulty/plain_plugin.h"

namespace {

keel_status fill(keel_plugin_stream* stream, void* destination, const void* pattern,
                 uint32_t pattern_size, uint64_t size) {
  const keel_status status =
      keel::faulty::plain_tables().stream.fill(stream, destination, pattern, pattern_size, size);
  std::promise<void> done;
  keel::faulty::enqueue(stream, [&done] { done.set_value(); });
  done.get_future().wait();
  return status;
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::faulty::Tables tables = keel::faulty::plain_tables();
  tables.stream.fill = fill;
  return keel::faulty::answer_query("faulty_blocking_enqueue", tables, host, out_plugin);
}
