// SPDX-License-Identifier: Apache-2.0
// The plugin's only exported symbol.
#include <keel/abi.h>

#include <keel/plugin_kit.hpp>

#include "tables.h"

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  if (host == nullptr || out_plugin == nullptr) return KEEL_INVALID_ARGUMENT;
  keel::kit::g_host = host;
  *out_plugin = &tinychip::kPlugin;
  return KEEL_OK;
}
