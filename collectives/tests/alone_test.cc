// SPDX-License-Identifier: Apache-2.0
// Collectives of a communicator of one rank.
#include <gtest/gtest.h>
#include <keel/keel.h>

#include <vector>

#include "core/testing/expect.h"
#include "core/testing/test_backend.h"

namespace {

constexpr uint64_t kCount = 70'001;
constexpr uint64_t kBytes = kCount * sizeof(float);

class CollectivesAloneTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_KEEL_OK(keel_device_get(0, &device_));
    auto options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
    options.forbid_alias = 1;
    ASSERT_KEEL_OK(keel_comm_init_all(&device_, 1, &options, &comm_));
    ASSERT_KEEL_OK(keel_stream_create(device_, 0, &stream_));
    ASSERT_KEEL_OK(keel_alloc(device_, KEEL_MEMORY_DEVICE, kBytes, &send_));
    ASSERT_KEEL_OK(keel_alloc(device_, KEEL_MEMORY_DEVICE, kBytes, &receive_));
    for (uint64_t i = 0; i < kCount; ++i) content_.push_back(static_cast<float>(i % 1013) - 500);
    upload(send_, content_);
  }
  void TearDown() override {
    keel_comm_destroy(comm_);
    EXPECT_KEEL_OK(keel_stream_destroy(stream_));
    EXPECT_KEEL_OK(keel_free(device_, send_));
    EXPECT_KEEL_OK(keel_free(device_, receive_));
  }

  void upload(void* destination, const std::vector<float>& values) const {
    ASSERT_KEEL_OK(keel_copy(stream_, device_, destination, KEEL_HOST, values.data(), kBytes));
    ASSERT_KEEL_OK(keel_stream_synchronize(stream_, KEEL_TIMEOUT_DEFAULT));
  }
  std::vector<float> download(const void* source) const {
    std::vector<float> values(kCount);
    EXPECT_KEEL_OK(keel_copy(stream_, KEEL_HOST, values.data(), device_, source, kBytes));
    EXPECT_KEEL_OK(keel_stream_synchronize(stream_, KEEL_TIMEOUT_DEFAULT));
    return values;
  }
  // |status| is of a call from |send_| to |receive_|.
  void expect_copy(const char* name, keel_status status) {
    EXPECT_KEEL_OK(status) << name;
    EXPECT_EQ(download(receive_), content_) << name;
    upload(receive_, std::vector<float>(kCount));
    ++operations_;
  }
  keel_comm_stats stats() const {
    auto stats = KEEL_STRUCT_INIT(keel_comm_stats, KEEL_STRUCT_COMM_STATS);
    EXPECT_KEEL_OK(keel_comm_stats_get(comm_, &stats));
    return stats;
  }

  keel_device device_ = {};
  keel_comm comm_ = {};
  keel_stream stream_ = {};
  void* send_ = nullptr;
  void* receive_ = nullptr;
  std::vector<float> content_;
  uint64_t operations_ = 0;
};

// Copies within the device, where memory that the host does not reach would be staged.
TEST_F(CollectivesAloneTest, StageNothing) {
  const keel_dtype type = KEEL_FLOAT32;
  for (const keel_reduction reduction : {KEEL_SUM, KEEL_PROD, KEEL_MIN, KEEL_MAX, KEEL_AVG}) {
    expect_copy("all_reduce",
                keel_all_reduce(comm_, send_, receive_, kCount, type, reduction, stream_));
  }
  expect_copy("reduce", keel_reduce(comm_, send_, receive_, kCount, type, KEEL_SUM, 0, stream_));
  expect_copy("broadcast", keel_broadcast(comm_, send_, receive_, kCount, type, 0, stream_));
  expect_copy("all_gather", keel_all_gather(comm_, send_, receive_, kCount, type, stream_));
  expect_copy("reduce_scatter",
              keel_reduce_scatter(comm_, send_, receive_, kCount, type, KEEL_SUM, stream_));
  expect_copy("all_to_all", keel_all_to_all(comm_, send_, receive_, kCount, type, stream_));
  expect_copy("gather", keel_gather(comm_, send_, receive_, kCount, type, 0, stream_));
  expect_copy("scatter", keel_scatter(comm_, send_, receive_, kCount, type, 0, stream_));
  EXPECT_EQ(stats().operations, operations_);
  EXPECT_EQ(stats().bytes_to_host, 0u);
  EXPECT_EQ(stats().bytes_to_device, 0u);
}

TEST_F(CollectivesAloneTest, InPlaceNothingMoves) {
  EXPECT_KEEL_OK(keel_all_reduce(comm_, send_, send_, kCount, KEEL_FLOAT32, KEEL_SUM, stream_));
  EXPECT_EQ(download(send_), content_);
  EXPECT_EQ(stats().operations, 1u);
  EXPECT_EQ(stats().bytes_to_host, 0u);
}

// The failed communicator refuses, as one of several ranks does.
TEST_F(CollectivesAloneTest, AnAbortedCommunicatorRefuses) {
  ASSERT_KEEL_OK(keel_comm_abort(comm_));
  EXPECT_EQ(keel_all_reduce(comm_, send_, receive_, kCount, KEEL_FLOAT32, KEEL_SUM, stream_),
            KEEL_ABORTED);
}

}  // namespace
