// SPDX-License-Identifier: Apache-2.0
#include "core/host_registrations.h"

#include <gtest/gtest.h>

#include <memory>

namespace keel {
namespace {

char g_memory[4096];

TEST(HostRegistrations, KnowsWhatLiesInARange) {
  HostRegistrations registrations;
  EXPECT_FALSE(registrations.has_same_address(g_memory, 1));
  registrations.add(g_memory + 64, 128, g_memory + 64);
  registrations.add(g_memory + 1024, 128, /*device_pointer=*/nullptr);
  // The second round uses the cached ranges.
  for (int time = 0; time < 2; ++time) {
    EXPECT_TRUE(registrations.has_same_address(g_memory + 64, 128));
    EXPECT_TRUE(registrations.has_same_address(g_memory + 191, 1));
    EXPECT_FALSE(registrations.has_same_address(g_memory + 63, 1));
    EXPECT_FALSE(registrations.has_same_address(g_memory + 192, 1));
    EXPECT_FALSE(registrations.has_same_address(g_memory + 64, 129));
    EXPECT_FALSE(registrations.has_same_address(g_memory + 65, UINT64_MAX));
    EXPECT_FALSE(registrations.has_same_address(g_memory + 1024, 1));
  }
}

TEST(HostRegistrations, ForgetsWhatIsTakenBack) {
  HostRegistrations registrations;
  registrations.add(g_memory, 256, g_memory);
  registrations.add(g_memory + 512, 256, g_memory + 512);
  registrations.add(g_memory + 1024, 256, g_memory + 1024);
  for (const int at : {0, 512, 1024}) {
    EXPECT_TRUE(registrations.has_same_address(g_memory + at, 256));
  }
  registrations.remove(g_memory + 512);
  EXPECT_TRUE(registrations.has_same_address(g_memory, 256));
  EXPECT_FALSE(registrations.has_same_address(g_memory + 512, 1));
  registrations.add(g_memory + 512, 16, g_memory + 512);
  EXPECT_TRUE(registrations.has_same_address(g_memory + 512, 16));
  EXPECT_FALSE(registrations.has_same_address(g_memory + 512, 17));
  EXPECT_TRUE(registrations.has_same_address(g_memory + 1024, 256));
}

// Ranges of another device, and of a device at the address of a former one.
TEST(HostRegistrations, RememberedRangesAreTheirOwn) {
  auto registrations = std::make_unique<HostRegistrations>();
  const HostRegistrations others;
  registrations->add(g_memory, 256, g_memory);
  EXPECT_TRUE(registrations->has_same_address(g_memory, 256));
  EXPECT_FALSE(others.has_same_address(g_memory, 256));
  registrations.reset();
  registrations = std::make_unique<HostRegistrations>();
  EXPECT_FALSE(registrations->has_same_address(g_memory, 256));
  registrations->add(g_memory + 512, 256, g_memory + 512);
  EXPECT_FALSE(registrations->has_same_address(g_memory, 256));
}

}  // namespace
}  // namespace keel
