// SPDX-License-Identifier: Apache-2.0
#include "conformance/noted_plugin.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstring>

#include "conformance/silent_plugin.h"

namespace keel::conformance {

namespace {

// Expects another function in each slot behind the header.
template <typename Table>
void expect_noted(const Table* noted, const Table* real, const char* name) {
  using Slots = std::array<void*, (sizeof(Table) - sizeof(keel_header)) / sizeof(void*)>;
  static_assert(sizeof(Table) == sizeof(keel_header) + sizeof(Slots));
  Slots after;
  Slots before;
  std::memcpy(&after, reinterpret_cast<const std::byte*>(noted) + sizeof(keel_header),
              sizeof(Slots));
  std::memcpy(&before, reinterpret_cast<const std::byte*>(real) + sizeof(keel_header),
              sizeof(Slots));
  for (size_t i = 0; i < after.size(); ++i) EXPECT_NE(after[i], before[i]) << name << " slot " << i;
}

TEST(NotedPluginTest, EverySlotIsNoted) {
  const keel_plugin& real = silent_plugin();
  const keel_plugin& noted = noted_plugin(real);
  EXPECT_NE(noted.create_instance, real.create_instance);
  EXPECT_NE(noted.destroy_instance, real.destroy_instance);
  EXPECT_EQ(noted.header.next, real.header.next);
  expect_noted(noted.device, real.device, "device");
  expect_noted(noted.memory, real.memory, "memory");
  expect_noted(noted.stream, real.stream, "stream");
  expect_noted(noted.kernel, real.kernel, "kernel");
  expect_noted(noted.op, real.op, "op");
  expect_noted(noted.ccl, real.ccl, "ccl");
  EXPECT_EQ(noted.stream->event_query(nullptr), KEEL_OK);
}

}  // namespace

}  // namespace keel::conformance
