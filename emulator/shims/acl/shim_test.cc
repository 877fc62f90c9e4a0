// SPDX-License-Identifier: Apache-2.0
// libascendcl.so over the emulated chip: contexts of threads, copies, events, and calls that the
// real library leaves undefined.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "emulator/shims/acl/testing/library.h"

namespace {

class AclShimTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(keel::emulator::testing::library("libascendcl.so"), nullptr) << dlerror();
    const aclError started = ACL(aclInit)(nullptr);
    ASSERT_TRUE(started == ACL_SUCCESS || started == ACL_ERROR_REPEAT_INITIALIZE) << started;
    ASSERT_EQ(ACL(aclrtSetDevice)(0), ACL_SUCCESS);
    ASSERT_EQ(ACL(aclrtCreateStreamWithConfig)(&stream_, 7, ACL_STREAM_FAST_SYNC), ACL_SUCCESS);
    ASSERT_EQ(ACL(aclrtMalloc)(&memory_, 4096, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(ACL(aclrtFree)(memory_), ACL_SUCCESS);
    EXPECT_EQ(ACL(aclrtDestroyStream)(stream_), ACL_SUCCESS);
    EXPECT_EQ(ACL(aclrtResetDevice)(0), ACL_SUCCESS);
  }
  char* at(size_t offset) const { return static_cast<char*>(memory_) + offset; }

  aclrtStream stream_ = nullptr;
  void* memory_ = nullptr;
};

TEST_F(AclShimTest, EachThreadHasAContextOfItsOwn) {
  aclrtContext own = nullptr;
  ASSERT_EQ(ACL(aclrtGetCurrentContext)(&own), ACL_SUCCESS);
  std::thread([&] {
    aclrtContext other = nullptr;
    EXPECT_EQ(ACL(aclrtGetCurrentContext)(&other), ACL_ERROR_RT_CONTEXT_NULL);
    void* pointer = nullptr;
    EXPECT_EQ(ACL(aclrtMalloc)(&pointer, 64, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_EQ(ACL(aclrtSetCurrentContext)(own), ACL_SUCCESS);
    EXPECT_EQ(ACL(aclrtGetCurrentContext)(&other), ACL_SUCCESS);
    EXPECT_EQ(other, own);
  }).join();
}

TEST_F(AclShimTest, AStreamOfAnotherContextIsRefused) {
  aclrtContext own = nullptr;
  ASSERT_EQ(ACL(aclrtGetCurrentContext)(&own), ACL_SUCCESS);
  ASSERT_EQ(ACL(aclrtSetDevice)(1), ACL_SUCCESS);
  aclrtStreamStatus status = ACL_STREAM_STATUS_COMPLETE;
  EXPECT_EQ(ACL(aclrtStreamQuery)(stream_, &status), ACL_ERROR_RT_STREAM_CONTEXT);
  EXPECT_EQ(ACL(aclrtResetDevice)(1), ACL_SUCCESS);
  EXPECT_EQ(ACL(aclrtStreamQuery)(stream_, &status), ACL_ERROR_RT_CONTEXT_NULL);
  EXPECT_EQ(ACL(aclrtSetCurrentContext)(own), ACL_SUCCESS);
  EXPECT_EQ(ACL(aclrtStreamQuery)(stream_, &status), ACL_SUCCESS);
  EXPECT_EQ(ACL(aclrtSetDevice)(3), ACL_ERROR_RT_INVALID_DEVICEID);
}

TEST_F(AclShimTest, CopiesCheckDestinationSizeAndAlignment) {
  const auto copy = ACL(aclrtMemcpyAsync);
  std::vector<char> host(256, 'x');
  EXPECT_EQ(copy(memory_, 255, host.data(), 256, ACL_MEMCPY_HOST_TO_DEVICE, stream_),
            ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_STRNE(ACL(aclGetRecentErrMsg)(), "");
  EXPECT_EQ(copy(memory_, 4096, host.data(), 256, ACL_MEMCPY_HOST_TO_DEVICE, stream_), ACL_SUCCESS);
  EXPECT_EQ(copy(at(1024 + 32), 64, memory_, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, stream_),
            ACL_ERROR_RT_ADDR_UNALIGNED);
  EXPECT_EQ(copy(at(1024), 256, memory_, 256, ACL_MEMCPY_DEVICE_TO_DEVICE, stream_), ACL_SUCCESS);
  EXPECT_EQ(ACL(aclrtMemsetAsync)(at(1024), 8, 'y', 9, stream_), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(ACL(aclrtMemsetAsync)(at(1024), 8, 'y', 8, stream_), ACL_SUCCESS);
  std::vector<char> back(256);
  EXPECT_EQ(copy(back.data(), 256, at(1024), 256, ACL_MEMCPY_DEVICE_TO_HOST, stream_), ACL_SUCCESS);
  ASSERT_EQ(ACL(aclrtSynchronizeStream)(stream_), ACL_SUCCESS);
  EXPECT_EQ(std::string(back.begin(), back.begin() + 10), "yyyyyyyyxx");
}

TEST_F(AclShimTest, EventsOrderStreamsAndMeasure) {
  aclrtEvent start = nullptr;
  aclrtEvent end = nullptr;
  ASSERT_EQ(ACL(aclrtCreateEventExWithFlag)(&start, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE),
            ACL_SUCCESS);
  ASSERT_EQ(ACL(aclrtCreateEventExWithFlag)(&end, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE),
            ACL_SUCCESS);
  aclrtStream second = nullptr;
  ASSERT_EQ(ACL(aclrtCreateStreamWithConfig)(&second, 0, 0), ACL_SUCCESS);
  std::atomic<int> order{0};
  EXPECT_EQ(ACL(aclrtRecordEvent)(start, stream_), ACL_SUCCESS);
  EXPECT_EQ(ACL(aclrtLaunchHostFunc)(
                stream_, [](void* at) { *static_cast<std::atomic<int>*>(at) = 1; }, &order),
            ACL_SUCCESS);
  for (int i = 0; i < 2; ++i) {  // records again without a reset
    EXPECT_EQ(ACL(aclrtRecordEvent)(end, stream_), ACL_SUCCESS);
  }
  EXPECT_EQ(ACL(aclrtStreamWaitEvent)(second, end), ACL_SUCCESS);
  EXPECT_EQ(ACL(aclrtLaunchHostFunc)(
                second,
                [](void* at) {
                  auto& value = *static_cast<std::atomic<int>*>(at);
                  value = value == 1 ? 2 : -1;
                },
                &order),
            ACL_SUCCESS);
  EXPECT_EQ(ACL(aclrtSynchronizeStream)(second), ACL_SUCCESS);
  EXPECT_EQ(order.load(), 2);
  aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
  EXPECT_EQ(ACL(aclrtQueryEventStatus)(end, &status), ACL_SUCCESS);
  EXPECT_EQ(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
  float ms = -1;
  EXPECT_EQ(ACL(aclrtEventElapsedTime)(&ms, start, end), ACL_SUCCESS);
  EXPECT_GE(ms, 0);
  EXPECT_EQ(ACL(aclrtDestroyStream)(second), ACL_SUCCESS);
  EXPECT_EQ(ACL(aclrtDestroyEvent)(start), ACL_SUCCESS);
  EXPECT_EQ(ACL(aclrtDestroyEvent)(end), ACL_SUCCESS);
}

TEST_F(AclShimTest, AFailureOfWorkStaysWithItsStream) {
  char* const beyond = at(uint64_t{1} << 20);
  std::vector<char> host(64);
  EXPECT_EQ(ACL(aclrtMemcpyAsync)(beyond, 64, host.data(), 64, ACL_MEMCPY_HOST_TO_DEVICE, stream_),
            ACL_SUCCESS);
  EXPECT_EQ(ACL(aclrtSynchronizeStream)(stream_), ACL_ERROR_RT_AICORE_EXCEPTION);
  aclrtStream second = nullptr;
  ASSERT_EQ(ACL(aclrtCreateStreamWithConfig)(&second, 0, 0), ACL_SUCCESS);
  EXPECT_EQ(ACL(aclrtSynchronizeStream)(second), ACL_SUCCESS);
  EXPECT_EQ(ACL(aclrtDestroyStream)(second), ACL_SUCCESS);
}

// Death tests start a new process, in which no thread of this one runs.
TEST(AclShimDeathTest, AStreamThatIsDestroyedEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        ACL(aclInit)(nullptr);
        ACL(aclrtSetDevice)(0);
        aclrtStream stream = nullptr;
        ACL(aclrtCreateStreamWithConfig)(&stream, 0, 0);
        ACL(aclrtDestroyStream)(stream);
        ACL(aclrtSynchronizeStream)(stream);
      },
      "aclrtSynchronizeStream: the stream does not exist; the real one does not define this");
  EXPECT_DEATH(
      {
        ACL(aclInit)(nullptr);
        ACL(aclrtSetDevice)(0);
        aclrtEvent event = nullptr;
        ACL(aclrtCreateEventExWithFlag)(&event, ACL_EVENT_SYNC);
        aclrtEventRecordedStatus status;
        ACL(aclrtQueryEventStatus)(event, &status);
      },
      "aclrtQueryEventStatus: the event was never recorded");
  EXPECT_DEATH(
      {
        ACL(aclInit)(nullptr);
        ACL(aclrtSetDevice)(0);
        aclrtStream stream = nullptr;
        ACL(aclrtCreateStreamWithConfig)(&stream, 0, 0);
        void* memory = nullptr;
        ACL(aclrtMalloc)(&memory, 200, ACL_MEM_MALLOC_HUGE_FIRST);
        void* pinned = nullptr;
        ACL(aclrtMallocHost)(&pinned, 100);
        ACL(aclrtMemcpyAsync)(memory, 200, pinned, 200, ACL_MEMCPY_HOST_TO_DEVICE, stream);
      },
      "aclrtMemcpyAsync: the host memory is pinned in part");
}

}  // namespace
