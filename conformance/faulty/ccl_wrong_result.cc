// SPDX-License-Identifier: Apache-2.0
// Wrong result: the collectives library corrupts the last element.
#include <keel/plugin_kit.hpp>

#include "conformance/faulty/plain_ccl.h"

namespace {

keel_status run(keel_plugin_comm* comm, keel_plugin_stream* stream, const keel_ccl_call* calls,
                uint32_t count) {
  const keel_status status = keel::faulty::plain_ccl().run(comm, stream, calls, count);
  for (uint32_t i = 0; status == KEEL_OK && i < count; ++i) {
    const uint64_t bytes = calls[i].count * keel::kit::dtype_size(calls[i].dtype);
    auto* const result = static_cast<unsigned char*>(calls[i].receive);
    keel::faulty::enqueue(stream, [=] { result[bytes - 1] ^= 0x41; });
  }
  return status;
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  static keel_ccl_table ccl = keel::faulty::plain_ccl();
  ccl.run = run;
  return keel::faulty::answer_query("faulty_ccl_wrong_result", keel::faulty::tables_with(ccl), host,
                                    out_plugin);
}
