// SPDX-License-Identifier: Apache-2.0
// False capability: reports a collectives library that supports no collective.

#include "conformance/faulty/plain_ccl.h"

namespace {

keel_status capability(keel_plugin_instance*, keel_collective, keel_dtype, keel_reduction) {
  return KEEL_UNSUPPORTED;
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  static keel_ccl_table ccl = keel::faulty::plain_ccl();
  ccl.capability = capability;
  return keel::faulty::answer_query("faulty_ccl_false_claim", keel::faulty::tables_with(ccl), host,
                                    out_plugin);
}
