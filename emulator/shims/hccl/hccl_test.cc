// SPDX-License-Identifier: Apache-2.0
// libhccl.so over the emulated chip: rendezvous, types and reductions, batched messages.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "emulator/shims/acl/testing/library.h"

namespace {

constexpr uint32_t kWorld = 3;

// One rank per device, each with a stream and memory of 64 words.
class HcclShimTest : public ::testing::Test {
 protected:
  struct Rank {
    aclrtContext context = nullptr;
    aclrtStream stream = nullptr;
    void* memory = nullptr;
    HcclComm comm = nullptr;
  };

  void SetUp() override {
    ASSERT_NE(keel::emulator::testing::library("libhccl.so"), nullptr) << dlerror();
    ACL(aclInit)(nullptr);
    HcclRootInfo info = {};
    ASSERT_EQ(HCCL(HcclGetRootInfo)(&info), HCCL_SUCCESS);
    each_rank([&](uint32_t rank, Rank& self) {
      EXPECT_EQ(ACL(aclrtSetDevice)(static_cast<int32_t>(rank)), ACL_SUCCESS);
      EXPECT_EQ(ACL(aclrtGetCurrentContext)(&self.context), ACL_SUCCESS);
      EXPECT_EQ(ACL(aclrtCreateStreamWithConfig)(&self.stream, 0, 0), ACL_SUCCESS);
      EXPECT_EQ(ACL(aclrtMalloc)(&self.memory, 256, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
      EXPECT_EQ(HCCL(HcclCommInitRootInfo)(kWorld, &info, rank, &self.comm), HCCL_SUCCESS);
    });
  }
  void TearDown() override {
    each_rank([&](uint32_t rank, Rank& self) {
      enter(self);
      EXPECT_EQ(HCCL(HcclCommDestroy)(self.comm), HCCL_SUCCESS);
      EXPECT_EQ(ACL(aclrtFree)(self.memory), ACL_SUCCESS);
      EXPECT_EQ(ACL(aclrtDestroyStream)(self.stream), ACL_SUCCESS);
      EXPECT_EQ(ACL(aclrtResetDevice)(static_cast<int32_t>(rank)), ACL_SUCCESS);
    });
  }
  void each_rank(const std::function<void(uint32_t, Rank&)>& work) {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      threads.emplace_back([&, rank] { work(rank, ranks_[rank]); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  static void enter(const Rank& self) {
    EXPECT_EQ(ACL(aclrtSetCurrentContext)(self.context), ACL_SUCCESS);
  }
  static void put(const Rank& self, const std::vector<int32_t>& words) {
    EXPECT_EQ(ACL(aclrtMemcpyAsync)(self.memory, 256, words.data(), words.size() * 4,
                                    ACL_MEMCPY_HOST_TO_DEVICE, self.stream),
              ACL_SUCCESS);
    EXPECT_EQ(ACL(aclrtSynchronizeStream)(self.stream), ACL_SUCCESS);
  }
  static std::vector<int32_t> get(const Rank& self, size_t count) {
    std::vector<int32_t> words(count);
    EXPECT_EQ(ACL(aclrtMemcpyAsync)(words.data(), count * 4, self.memory, count * 4,
                                    ACL_MEMCPY_DEVICE_TO_HOST, self.stream),
              ACL_SUCCESS);
    EXPECT_EQ(ACL(aclrtSynchronizeStream)(self.stream), ACL_SUCCESS);
    return words;
  }

  Rank ranks_[kWorld];
};

TEST_F(HcclShimTest, SumsAndBroadcasts) {
  each_rank([&](uint32_t rank, Rank& self) {
    enter(self);
    put(self, {static_cast<int32_t>(rank), 10});
    EXPECT_EQ(HCCL(HcclAllReduce)(self.memory, self.memory, 2, HCCL_DATA_TYPE_INT32,
                                  HCCL_REDUCE_SUM, self.comm, self.stream),
              HCCL_SUCCESS);
    EXPECT_EQ(get(self, 2), (std::vector<int32_t>{3, 30}));
    put(self, {static_cast<int32_t>(rank)});
    EXPECT_EQ(HCCL(HcclBroadcast)(self.memory, 1, HCCL_DATA_TYPE_INT32, 2, self.comm, self.stream),
              HCCL_SUCCESS);
    EXPECT_EQ(get(self, 1), std::vector<int32_t>{2});
  });
}

TEST_F(HcclShimTest, RefusesReductionsThatTheLibraryLacks) {
  enter(ranks_[0]);
  Rank& self = ranks_[0];
  const auto sum = [&](int32_t type, int32_t op) {
    return HCCL(HcclAllReduce)(self.memory, self.memory, 1, static_cast<HcclDataType>(type),
                               static_cast<HcclReduceOp>(op), self.comm, self.stream);
  };
  EXPECT_EQ(sum(HCCL_DATA_TYPE_INT64, HCCL_REDUCE_SUM), HCCL_E_NOT_SUPPORT);
  EXPECT_EQ(sum(HCCL_DATA_TYPE_FP64, HCCL_REDUCE_SUM), HCCL_E_NOT_SUPPORT);
  EXPECT_EQ(sum(HCCL_DATA_TYPE_INT16, HCCL_REDUCE_PROD), HCCL_E_NOT_SUPPORT);
  EXPECT_EQ(sum(HCCL_DATA_TYPE_BFP16, HCCL_REDUCE_PROD), HCCL_E_NOT_SUPPORT);
  EXPECT_EQ(sum(HCCL_DATA_TYPE_FP32, 4), HCCL_E_NOT_SUPPORT);
  EXPECT_EQ(sum(200, HCCL_REDUCE_SUM), HCCL_E_NOT_SUPPORT);
}

TEST_F(HcclShimTest, BatchedMessagesProceedTogether) {
  each_rank([&](uint32_t rank, Rank& self) {
    enter(self);
    put(self, {static_cast<int32_t>(rank + 1), 0});
    auto* const words = static_cast<int32_t*>(self.memory);
    HcclSendRecvItem items[] = {
        {HCCL_RECV, words + 1, 1, HCCL_DATA_TYPE_INT32, (rank + kWorld - 1) % kWorld},
        {HCCL_SEND, words, 1, HCCL_DATA_TYPE_INT32, (rank + 1) % kWorld}};
    EXPECT_EQ(HCCL(HcclBatchSendRecv)(items, 2, self.comm, self.stream), HCCL_SUCCESS);
    EXPECT_EQ(get(self, 2)[1], static_cast<int32_t>((rank + kWorld - 1) % kWorld + 1));
  });
}

TEST_F(HcclShimTest, ARootInfoCutShortIsRefused) {
  HcclRootInfo info = {};
  ASSERT_EQ(HCCL(HcclGetRootInfo)(&info), HCCL_SUCCESS);
  std::memset(info.internal + 4000, 0, HCCL_ROOT_INFO_BYTES - 4000);
  enter(ranks_[0]);
  HcclComm comm = nullptr;
  EXPECT_EQ(HCCL(HcclCommInitRootInfo)(1, &info, 0, &comm), HCCL_E_PARA);
  EXPECT_STREQ(HCCL(HcclGetErrorString)(HCCL_E_PARA), "parameter error");
}

}  // namespace
