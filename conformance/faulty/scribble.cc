// SPDX-License-Identifier: Apache-2.0
// Correct, except that creating a stream writes to descriptor 3, on which the worker answers the
// runner.
#include <unistd.h>

#include <string_view>

#include "conformance/faulty/plain_plugin.h"

namespace {

constexpr std::string_view kScribbles =
    "\nhello\n[[[[\n{\"type\": 5}\n"
    "{\"type\": \"begin\", \"id\": \"core/none\"}\n"
    "{\"type\": \"end\", \"id\": \"core/none\", \"outcome\": \"pass\", \"message\": \"\", "
    "\"seconds\": 0}\n"
    "{\"type\": \"end\", \"id\": {}}\n";

keel_status create(keel_plugin_device* device, int32_t priority, keel_plugin_stream** out_stream) {
  constexpr int kAnswers = 3;
  if (write(kAnswers, kScribbles.data(), kScribbles.size()) < 0) return KEEL_UNKNOWN;
  return keel::faulty::plain_tables().stream.create(device, priority, out_stream);
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::faulty::Tables tables = keel::faulty::plain_tables();
  tables.stream.create = create;
  return keel::faulty::answer_query("faulty_scribble", tables, host, out_plugin);
}
