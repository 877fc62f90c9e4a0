// SPDX-License-Identifier: Apache-2.0
// Wrong result: the last element of an operator's output is wrong, like an off-by-one error in a
// kernel's tail handling.
#include <keel/plugin_kit.hpp>

#include "conformance/faulty/plain_plugin.h"

namespace {

keel_status run(keel_plugin_stream* stream, const keel_op_call* call, void* workspace) {
  const keel_status status = keel::faulty::plain_tables().op.run(stream, call, workspace);
  const keel_tensor output = *call->outputs[0];
  const uint64_t bytes = keel::kit::span_bytes(output);
  if (status != KEEL_OK || bytes == 0) return status;
  keel::faulty::enqueue(stream, [output, bytes] {
    keel::kit::first_element<unsigned char>(output)[bytes - 1] ^= 0x41;
  });
  return KEEL_OK;
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::faulty::Tables tables = keel::faulty::plain_tables();
  tables.op.run = run;
  return keel::faulty::answer_query("faulty_wrong_last_element", tables, host, out_plugin);
}
