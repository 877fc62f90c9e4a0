// SPDX-License-Identifier: Apache-2.0
// Not repeatable: every second result of an operator differs in the last bit of its first element,
// like a sum with a varying order of terms.
#include <atomic>
#include <keel/plugin_kit.hpp>

#include "conformance/faulty/plain_plugin.h"

namespace {

keel_status run(keel_plugin_stream* stream, const keel_op_call* call, void* workspace) {
  static std::atomic<uint64_t> calls{0};
  const keel_status status = keel::faulty::plain_tables().op.run(stream, call, workspace);
  const keel_tensor output = *call->outputs[0];
  const bool is_second = calls.fetch_add(1) % 2 == 1;
  if (status != KEEL_OK || !is_second || keel::kit::span_bytes(output) == 0) return status;
  keel::faulty::enqueue(stream,
                        [output] { keel::kit::first_element<unsigned char>(output)[0] ^= 1; });
  return KEEL_OK;
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::faulty::Tables tables = keel::faulty::plain_tables();
  tables.op.run = run;
  return keel::faulty::answer_query("faulty_unrepeatable", tables, host, out_plugin);
}
