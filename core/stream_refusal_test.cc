// SPDX-License-Identifier: Apache-2.0
#include "core/stream_refusal.h"

#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

class StreamRefusalTest : public KeelTest {
 protected:
  void SetUp() override {
    KeelTest::SetUp();
    device_ = load("cpu", {{"devices", "1"}}).at(0);
    stream_ = new_stream(device_);
    memory_ = alloc(device_, 64);
    ASSERT_KEEL_OK(keel_comm_init_all(&device_, 1, nullptr, &comm_));
  }
  void TearDown() override {
    EXPECT_KEEL_OK(keel_comm_destroy(comm_));
    EXPECT_KEEL_OK(keel_free(device_, memory_));
    EXPECT_KEEL_OK(keel_stream_destroy(stream_));
    KeelTest::TearDown();
  }
  void fail_stream() {
    keel_gate gate = {};
    ASSERT_KEEL_OK(keel_gate_create(&gate));
    ASSERT_KEEL_OK(keel_stream_wait_gate(stream_, gate));
    ASSERT_KEEL_OK(keel_gate_open(gate, KEEL_DATA_LOSS, "the file is cut"));
    EXPECT_EQ(keel_stream_synchronize(stream_, kTestTimeout), KEEL_DATA_LOSS);
    ASSERT_KEEL_OK(keel_gate_destroy(gate));
  }
  keel_status call_all_reduce() {
    return keel_all_reduce(comm_, memory_, memory_, 4, KEEL_INT32, KEEL_SUM, stream_);
  }

  keel_device device_ = {};
  keel_stream stream_ = {};
  keel_comm comm_ = {};
  void* memory_ = nullptr;
};

TEST_F(StreamRefusalTest, EveryEnqueueOnFailedStreamHasACodeOfItsOwn) {
  EXPECT_STREQ(keel_status_name(KEEL_STREAM_FAILED), "KEEL_STREAM_FAILED");
  fail_stream();
  char host[64] = {};
  EXPECT_FAILS(KEEL_STREAM_FAILED, "KEEL_DATA_LOSS: the file is cut",
               fill(stream_, memory_, 1, 16));
  EXPECT_FAILS(KEEL_STREAM_FAILED, "the file is cut",
               keel_copy(stream_, KEEL_HOST, host, device_, memory_, sizeof(host)));
  EXPECT_FAILS(KEEL_STREAM_FAILED, "the file is cut", call_all_reduce());
  ASSERT_KEEL_OK(keel_group_start());
  EXPECT_FAILS(KEEL_STREAM_FAILED, "the file is cut", call_all_reduce());
  EXPECT_KEEL_OK(keel_group_end());
  // Waits return the failure itself.
  EXPECT_FAILS(KEEL_DATA_LOSS, "the file is cut", keel_stream_query(stream_));
  EXPECT_FAILS(KEEL_DATA_LOSS, "the file is cut", keel_stream_synchronize(stream_, kTestTimeout));
  ASSERT_KEEL_OK(keel_stream_recover(stream_, kTestTimeout));
  EXPECT_KEEL_OK(fill(stream_, memory_, 1, 16));
  EXPECT_KEEL_OK(call_all_reduce());
  EXPECT_KEEL_OK(keel_stream_synchronize(stream_, kTestTimeout));
}

TEST_F(StreamRefusalTest, CallRefusedForItselfKeepsItsCode) {
  fail_stream();
  EXPECT_EQ(fill(stream_, nullptr, 1, 16), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(keel_all_reduce(comm_, memory_, memory_, 4, KEEL_INT32, 99, stream_),
            KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(keel_fill({}, memory_, "", 1, 1), KEEL_INVALID_HANDLE);
  EXPECT_KEEL_OK(keel_stream_recover(stream_, kTestTimeout));
}

}  // namespace
}  // namespace keel::testing
