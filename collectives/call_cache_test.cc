// SPDX-License-Identifier: Apache-2.0
#include "collectives/call_cache.h"

#include <gtest/gtest.h>

#include <array>

namespace keel {
namespace {

Request request_of(const CallArguments& arguments) {
  return arguments.request(nullptr, nullptr);
}

TEST(CallCache, AreFoundByAllTheirArguments) {
  CallCache calls;
  const CallArguments known = {KEEL_REDUCE, KEEL_FLOAT32, KEEL_SUM, 1, 100};
  calls.remember(request_of(known), /*rank=*/1, /*world=*/4);
  const CachedCall* found = calls.find(known);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->send_bytes, 400u);
  EXPECT_EQ(found->receive_bytes, 400u);
  EXPECT_EQ(calls.find({KEEL_ALL_REDUCE, KEEL_FLOAT32, KEEL_SUM, 1, 100}), nullptr);
  EXPECT_EQ(calls.find({KEEL_REDUCE, KEEL_INT32, KEEL_SUM, 1, 100}), nullptr);
  EXPECT_EQ(calls.find({KEEL_REDUCE, KEEL_FLOAT32, KEEL_MAX, 1, 100}), nullptr);
  EXPECT_EQ(calls.find({KEEL_REDUCE, KEEL_FLOAT32, KEEL_SUM, 0, 100}), nullptr);
  EXPECT_EQ(calls.find({KEEL_REDUCE, KEEL_FLOAT32, KEEL_SUM, 1, 101}), nullptr);
}

TEST(CallCache, HaveBuffersApartOrInPlace) {
  CallCache calls;
  const CallArguments arguments = {KEEL_ALL_GATHER, KEEL_UINT8, KEEL_SUM, 0, 16};
  calls.remember(request_of(arguments), /*rank=*/2, /*world=*/4);
  const CachedCall& gather = *calls.find(arguments);
  std::array<char, 256> memory;
  EXPECT_TRUE(gather.may_have(&memory[0], &memory[16]));
  EXPECT_TRUE(gather.may_have(&memory[64], &memory[0]));
  EXPECT_TRUE(gather.may_have(&memory[32], &memory[0]));  // the place of the rank's part
  EXPECT_FALSE(gather.may_have(&memory[31], &memory[0]));
  EXPECT_FALSE(gather.may_have(&memory[0], &memory[0]));
}

}  // namespace
}  // namespace keel
