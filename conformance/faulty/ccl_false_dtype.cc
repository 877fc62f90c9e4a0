// SPDX-License-Identifier: Apache-2.0
// False capability: the collectives report float64 support but compute in float32.
#include <keel/plugin_kit.hpp>

#include "conformance/faulty/plain_ccl.h"

namespace {

keel_status capability(keel_plugin_instance* instance, keel_collective collective, keel_dtype dtype,
                       keel_reduction reduction) {
  return keel::faulty::plain_ccl().capability(
      instance, collective, dtype == KEEL_FLOAT64 ? keel_dtype{KEEL_FLOAT32} : dtype, reduction);
}

keel_status run(keel_plugin_comm* comm, keel_plugin_stream* stream, const keel_ccl_call* calls,
                uint32_t count) {
  const keel_status status = keel::faulty::plain_ccl().run(comm, stream, calls, count);
  for (uint32_t i = 0; status == KEEL_OK && i < count; ++i) {
    if (calls[i].dtype != KEEL_FLOAT64) continue;
    auto* const result = static_cast<double*>(calls[i].receive);
    keel::faulty::enqueue(stream, [result, elements = calls[i].count] {
      for (uint64_t e = 0; e < elements; ++e) result[e] = static_cast<float>(result[e]);
    });
  }
  return status;
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  static keel_ccl_table ccl = keel::faulty::plain_ccl();
  ccl.capability = capability;
  ccl.run = run;
  return keel::faulty::answer_query("faulty_ccl_false_dtype", keel::faulty::tables_with(ccl), host,
                                    out_plugin);
}
