// SPDX-License-Identifier: Apache-2.0
// No fault, with a collectives library: the reference for the faulty collectives plugins.

#include "conformance/faulty/plain_ccl.h"

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  static keel_ccl_table ccl = keel::faulty::plain_ccl();
  return keel::faulty::answer_query("faulty_ccl_none", keel::faulty::tables_with(ccl), host,
                                    out_plugin);
}
