// SPDX-License-Identifier: Apache-2.0
// No fault: the reference for the faulty plugins.
#include "conformance/faulty/plain_plugin.h"

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  return keel::faulty::answer_query("faulty_none", keel::faulty::plain_tables(), host, out_plugin);
}
