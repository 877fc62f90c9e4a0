// SPDX-License-Identifier: Apache-2.0
// Overrun: a copy into device memory extends to the next multiple of 16 bytes, like a copy in whole
// vectors.
#include <cstring>

#include "conformance/faulty/plain_plugin.h"

namespace {

keel_status copy(keel_plugin_stream* stream, keel_copy_kind kind, void* destination,
                 const void* source, uint64_t size) {
  const keel_status status =
      keel::faulty::plain_tables().stream.copy(stream, kind, destination, source, size);
  const uint64_t past = (16 - size % 16) % 16;
  if (status == KEEL_OK && kind != KEEL_COPY_DEVICE_TO_HOST) {
    keel::faulty::enqueue(stream,
                          [=] { std::memset(static_cast<char*>(destination) + size, 0, past); });
  }
  return status;
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::faulty::Tables tables = keel::faulty::plain_tables();
  tables.stream.copy = copy;
  return keel::faulty::answer_query("faulty_past_end", tables, host, out_plugin);
}
