// SPDX-License-Identifier: Apache-2.0
#include "core/passthrough_allocator.h"

#include <string_view>

#include "core/plugin_file.h"

namespace keel::passthrough_allocator {

std::atomic<bool> g_enabled{false};

Status configure() {
  const char* const text = trusted_environment("KEEL_ALLOC");
  const std::string_view wanted = text == nullptr ? "" : text;
  if (!wanted.empty() && wanted != "cached" && wanted != "exact") {
    return failure(KEEL_INVALID_ARGUMENT, "KEEL_ALLOC={} is neither cached nor exact", wanted);
  }
  g_enabled.store(wanted == "exact", std::memory_order_relaxed);
  return {};
}

}  // namespace keel::passthrough_allocator
