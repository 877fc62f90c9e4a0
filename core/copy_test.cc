// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <thread>

#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

constexpr size_t kLarge = (13u << 18) + 7;  // four chunks of 4 MiB, the last one odd

struct Route {
  const char* name;
  const char* from;
  Settings from_settings;
  const char* to;
  Settings to_settings;
  bool same_instance;
  keel_copy_route route;
};

class CopyTest : public KeelTest, public ::testing::WithParamInterface<Route> {
 protected:
  void SetUp() override {
    KeelTest::SetUp();
    const Route& route = GetParam();
    const auto devices = load(route.from, route.from_settings);
    from_ = devices.at(0);
    to_ = route.same_instance ? devices.at(1) : load(route.to, route.to_settings).at(0);
  }
  keel_device from_ = {};
  keel_device to_ = {};
};

TEST_P(CopyTest, TakesTheRouteItReports) {
  auto path = KEEL_STRUCT_INIT(keel_copy_path, KEEL_STRUCT_COPY_PATH);
  ASSERT_KEEL_OK(keel_copy_path_get(to_, from_, &path));
  EXPECT_EQ(path.route, GetParam().route) << path.text;
  EXPECT_EQ(path.steps, GetParam().route == KEEL_ROUTE_STAGED ? 2u : 1u);
  EXPECT_NE(path.text[0], '\0');
}

TEST_P(CopyTest, OddSizesAndManyChunks) {
  for (size_t words : {size_t{1}, size_t{1023}, kLarge}) {
    const std::vector<uint32_t> expected = pattern(words, 3);
    void* source = alloc_filled(from_, expected);
    void* destination = alloc(to_, words * 4);
    for (keel_device owner : {from_, to_}) {  // on a stream of either device
      const keel_stream stream = new_stream(owner);
      const keel_stream eraser = new_stream(to_);
      ASSERT_KEEL_OK(fill(eraser, destination, 0, words));
      ASSERT_KEEL_OK(keel_stream_wait_event(stream, record(eraser)));
      ASSERT_KEEL_OK(keel_copy(stream, to_, destination, from_, source, words * 4));
      ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
      EXPECT_TRUE(read(to_, destination, words) == expected) << words;
    }
  }
}

TEST_P(CopyTest, ManyAtOnceInBothDirections) {
  constexpr uint32_t kPairs = 4;
  const size_t words = (3u << 19) + 1;
  std::vector<std::thread> threads;
  for (uint32_t pair = 0; pair < kPairs; ++pair) {
    threads.emplace_back([&, pair] {
      const std::vector<uint32_t> expected = pattern(words, pair);
      void* there = alloc(to_, words * 4);
      void* here = alloc_filled(from_, expected);
      void* back = alloc(from_, words * 4);
      const keel_stream stream = new_stream(pair % 2 == 0 ? from_ : to_);
      for (int round = 0; round < 4; ++round) {
        EXPECT_KEEL_OK(keel_copy(stream, to_, there, from_, here, words * 4));
        EXPECT_KEEL_OK(keel_copy(stream, from_, back, to_, there, words * 4));
      }
      EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
      EXPECT_TRUE(read(from_, back, words) == expected);
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_P(CopyTest, BehindAFailureNothingIsCopied) {
  keel_gate gate = {};
  ASSERT_KEEL_OK(keel_gate_create(&gate));
  void* source = alloc_filled(from_, {1, 2});
  void* destination = alloc_filled(to_, {8, 9});
  const keel_stream stream = new_stream(from_);
  ASSERT_KEEL_OK(keel_stream_wait_gate(stream, gate));
  ASSERT_KEEL_OK(keel_copy(stream, to_, destination, from_, source, 8));
  ASSERT_KEEL_OK(keel_gate_open(gate, KEEL_ABORTED, "no"));
  EXPECT_EQ(keel_stream_synchronize(stream, kTestTimeout), KEEL_ABORTED);
  ASSERT_KEEL_OK(keel_stream_recover(stream, kTestTimeout));
  EXPECT_EQ(read(to_, destination, 2), (std::vector<uint32_t>{8, 9}));
  EXPECT_KEEL_OK(keel_device_synchronize(to_, kTestTimeout));
  ASSERT_KEEL_OK(keel_copy(stream, to_, destination, from_, source, 8));
  ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  EXPECT_EQ(read(to_, destination, 2), (std::vector<uint32_t>{1, 2}));
}

const Settings kStaged = {{"no_alias", "1"}};
const Settings kTwoDevices = {{"devices", "2"}};
const Settings kOneDevice = {{"devices", "1"}};
const Settings kSingleQueue = {{"devices", "1"}, {"single_queue", "1"}, {"pageable_async", "1"}};
INSTANTIATE_TEST_SUITE_P(
    Routes, CopyTest,
    ::testing::Values(
        Route{"peer", "fake", {}, "fake", {}, true, KEEL_ROUTE_PEER},
        Route{"alias", "fake", {}, "fake_polled", {}, false, KEEL_ROUTE_ALIAS},
        Route{"alias_of_source",
              "fake",
              {{"no_pageable", "1"}},
              "fake_polled",
              kStaged,
              false,
              KEEL_ROUTE_ALIAS},
        Route{"staged", "fake", kStaged, "fake_polled", kStaged, false, KEEL_ROUTE_STAGED},
        Route{"staged_within",
              "fake",
              {{"no_alias", "1"}, {"no_peer", "1"}},
              "fake",
              {},
              true,
              KEEL_ROUTE_STAGED},
        Route{"staged_one_pins",
              "fake",
              {{"no_alias", "1"}, {"no_pinned", "1"}},
              "fake_polled",
              kStaged,
              false,
              KEEL_ROUTE_STAGED},
        Route{"sim_peer", "sim", kTwoDevices, "sim", {}, true, KEEL_ROUTE_PEER},
        Route{"sim_staged", "sim", kOneDevice, "sim", kSingleQueue, false, KEEL_ROUTE_STAGED},
        Route{"sim_alias", "fake", {}, "sim", kSingleQueue, false, KEEL_ROUTE_ALIAS}),
    [](const auto& info) { return std::string(info.param.name); });

using FakeCopyTest = KeelTest;

TEST_F(FakeCopyTest, FillsWithoutAFill) {
  const keel_device device = load("fake", {{"no_fill", "1"}}).at(0);
  const keel_stream stream = new_stream(device);
  const size_t words = (5u << 17) + 3;
  void* memory = alloc(device, words * 4);
  const uint64_t pattern = 0x1122334455667788;
  ASSERT_KEEL_OK(keel_fill(stream, memory, &pattern, 8, words / 2 * 8));
  ASSERT_KEEL_OK(fill(stream, static_cast<uint32_t*>(memory) + words - 1, 9, 1));
  ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  const auto values = read(device, memory, words);
  EXPECT_EQ(values.front(), 0x55667788u);
  EXPECT_EQ(values[words - 2], 0x11223344u);
  EXPECT_EQ(values.back(), 9u);
}

TEST_F(FakeCopyTest, RefusesWhatIsNotACopy) {
  const auto devices = load("fake");
  const keel_device a = devices.at(0);
  const keel_device b = devices.at(1);
  const keel_stream stream = new_stream(a);
  char* memory = static_cast<char*>(alloc_filled(a, pattern(16, 1)));
  char* other = static_cast<char*>(alloc(b, 64));
  char host[64] = {};
  EXPECT_EQ(keel_copy(stream, a, memory, KEEL_HOST, host, 65), KEEL_OUT_OF_RANGE);
  EXPECT_EQ(keel_copy(stream, a, memory + 60, KEEL_HOST, host, 5), KEEL_OUT_OF_RANGE);
  EXPECT_EQ(keel_copy(stream, a, memory, KEEL_HOST, host, UINT64_MAX), KEEL_OUT_OF_RANGE);
  EXPECT_EQ(keel_copy(stream, a, memory, a, memory + 8, 16), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(keel_copy(stream, a, memory, a, memory, 16), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(keel_copy(stream, a, memory, b, memory, 16), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(keel_copy(stream, a, host, KEEL_HOST, host, 16), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(keel_copy(stream, b, other, KEEL_HOST, host, 16), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(keel_copy(stream, KEEL_HOST, host, KEEL_HOST, host + 32, 16), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(keel_copy(stream, a, memory, KEEL_HOST, nullptr, 16), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(keel_fill(stream, memory, host, 3, 63), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(keel_fill(stream, memory, host, 0, 64), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(keel_fill(stream, memory, host, 8, 60), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(keel_fill(stream, memory + 2, host, 4, 16), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(keel_fill(stream, other, host, 4, 16), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(keel_fill(stream, host, host, 4, 16), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(keel_fill(stream, memory, host, 1, 65), KEEL_OUT_OF_RANGE);
  EXPECT_KEEL_OK(keel_copy(stream, a, memory, KEEL_HOST, host, 0));
  EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  EXPECT_EQ(read(a, memory, 16), pattern(16, 1)) << "a refused call changed something";
}

TEST_F(FakeCopyTest, ARefusedCopyLeavesTheStreamAsItWas) {
  const keel_device device = load("fake", {{"refuse_copy_at", "1"}}).at(0);
  const keel_stream stream = new_stream(device);
  uint32_t word = 5;
  void* memory = alloc(device, 4);
  EXPECT_EQ(keel_copy(stream, device, memory, KEEL_HOST, &word, 4), KEEL_UNAVAILABLE);
  EXPECT_NE(std::string(keel_last_error()).find("copy 1 is refused"), std::string::npos);
  EXPECT_KEEL_OK(keel_copy(stream, device, memory, KEEL_HOST, &word, 4));
  EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  EXPECT_EQ(read(device, memory, 1), std::vector<uint32_t>{5});
}

}  // namespace
}  // namespace keel::testing
