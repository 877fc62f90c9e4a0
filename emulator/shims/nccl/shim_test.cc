// SPDX-License-Identifier: Apache-2.0
// The library as users load it: at run time, by name, in the driver's folder.
#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr uint32_t kWorld = 3;

void* open_once(const char* file) {
  setenv("KEEL_EMULATED_CUDA", "devices=3 memory_mib=64", 1);
  setenv("KEEL_EMULATED_NCCL", "version=22703", 1);
  return dlopen(file, RTLD_NOW | RTLD_LOCAL);
}
void* library() {
  static void* const opened = open_once(KEEL_SHIM);
  return opened;
}
void* driver() {
  static void* const opened = open_once(KEEL_DRIVER_SHIM);
  return opened;
}

#define NCCL(name) reinterpret_cast<decltype(&name)>(dlsym(library(), #name))
#define DRIVER(name, symbol) reinterpret_cast<decltype(&name)>(dlsym(driver(), symbol))

// One blocking rank per device, each with a stream and memory of four words.
class NcclShimTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(driver(), nullptr) << dlerror();
    ASSERT_NE(library(), nullptr) << dlerror();
    ASSERT_EQ(DRIVER(cuInit, "cuInit")(0), CUDA_SUCCESS);
    ncclUniqueId id;
    ASSERT_EQ(NCCL(ncclGetUniqueId)(&id), ncclSuccess) << error();
    each_rank([&](uint32_t rank) {
      Rank& self = ranks_[rank];
      EXPECT_EQ(DRIVER(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain")(
                    &self.context, static_cast<CUdevice>(rank)),
                CUDA_SUCCESS);
      push(rank);
      EXPECT_EQ(DRIVER(cuStreamCreateWithPriority, "cuStreamCreateWithPriority")(
                    &self.stream, CU_STREAM_NON_BLOCKING, 0),
                CUDA_SUCCESS);
      EXPECT_EQ(DRIVER(cuMemAlloc, "cuMemAlloc_v2")(&self.memory, 16), CUDA_SUCCESS);
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      EXPECT_EQ(
          NCCL(ncclCommInitRankConfig)(&self.comm, kWorld, id, static_cast<int>(rank), &config),
          ncclSuccess)
          << error();
    });
  }
  void TearDown() override {
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      if (ranks_[rank].comm != nullptr) {
        EXPECT_EQ(NCCL(ncclCommDestroy)(ranks_[rank].comm), ncclSuccess);
      }
      EXPECT_EQ(DRIVER(cuStreamDestroy, "cuStreamDestroy_v2")(ranks_[rank].stream), CUDA_SUCCESS);
      EXPECT_EQ(DRIVER(cuDevicePrimaryCtxRelease,
                       "cuDevicePrimaryCtxRelease_v2")(static_cast<CUdevice>(rank)),
                CUDA_SUCCESS);
    }
  }
  static void each_rank(const std::function<void(uint32_t)>& work) {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kWorld; ++rank) threads.emplace_back(work, rank);
    for (std::thread& thread : threads) thread.join();
  }
  static std::string error() { return NCCL(ncclGetLastError)(nullptr); }
  void push(uint32_t rank) const {
    EXPECT_EQ(DRIVER(cuCtxPushCurrent, "cuCtxPushCurrent_v2")(ranks_[rank].context), CUDA_SUCCESS);
  }
  static void pop() {
    CUcontext context = nullptr;
    EXPECT_EQ(DRIVER(cuCtxPopCurrent, "cuCtxPopCurrent_v2")(&context), CUDA_SUCCESS);
  }
  void write(uint32_t rank, const std::vector<uint32_t>& words) const {
    push(rank);
    EXPECT_EQ(DRIVER(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2")(
                  ranks_[rank].memory, words.data(), words.size() * 4, ranks_[rank].stream),
              CUDA_SUCCESS);
    pop();
  }
  // Reads after all enqueued work.
  std::vector<uint32_t> read(uint32_t rank) const {
    std::vector<uint32_t> words(4);
    push(rank);
    EXPECT_EQ(DRIVER(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2")(words.data(), ranks_[rank].memory,
                                                                16, ranks_[rank].stream),
              CUDA_SUCCESS);
    pop();
    return words;
  }
  void* memory(uint32_t rank, uint32_t word = 0) const {
    return reinterpret_cast<void*>(ranks_[rank].memory + word * 4);
  }
  ncclResult_t all_reduce(uint32_t rank, ncclRedOp_t op = ncclSum) const {
    push(rank);
    const ncclResult_t result = NCCL(ncclAllReduce)(memory(rank), memory(rank), 4, ncclUint32, op,
                                                    ranks_[rank].comm, ranks_[rank].stream);
    pop();
    return result;
  }

  struct Rank {
    CUcontext context = nullptr;
    CUstream stream = nullptr;
    CUdeviceptr memory = 0;
    ncclComm_t comm = nullptr;
  };
  Rank ranks_[kWorld];
};

TEST_F(NcclShimTest, VersionAndWords) {
  int version = 0;
  EXPECT_EQ(NCCL(ncclGetVersion)(&version), ncclSuccess);
  EXPECT_EQ(version, 22703);
  EXPECT_STREQ(NCCL(ncclGetErrorString)(ncclInvalidUsage), "invalid usage");
}

TEST_F(NcclShimTest, WorksOnTheDriversStreamsAndMemory) {
  for (uint32_t rank = 0; rank < kWorld; ++rank) write(rank, {rank, 10 + rank, 7, 1});
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    EXPECT_EQ(all_reduce(rank), ncclSuccess) << error();
  }
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    EXPECT_EQ(read(rank), (std::vector<uint32_t>{3, 33, 21, 3}));
  }
}

// Sends around a ring, in groups that each wait for another group.
TEST_F(NcclShimTest, MessagesInGroups) {
  for (uint32_t rank = 0; rank < kWorld; ++rank) write(rank, {rank + 1, 0, 0, 0});
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    push(rank);
    const Rank& self = ranks_[rank];
    const int right = static_cast<int>((rank + 1) % kWorld);
    const int left = static_cast<int>((rank + kWorld - 1) % kWorld);
    ASSERT_EQ(NCCL(ncclGroupStart)(), ncclSuccess);
    EXPECT_EQ(NCCL(ncclSend)(memory(rank), 1, ncclUint32, right, self.comm, self.stream),
              ncclSuccess);
    EXPECT_EQ(NCCL(ncclRecv)(static_cast<uint32_t*>(memory(rank)) + 1, 1, ncclUint32, left,
                             self.comm, self.stream),
              ncclSuccess);
    ASSERT_EQ(NCCL(ncclGroupEnd)(), ncclSuccess) << error();
    pop();
  }
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    EXPECT_EQ(read(rank)[1], (rank + kWorld - 1) % kWorld + 1) << rank;
  }
}

// The last two ranks, in reverse order; the first rank in no part.
TEST_F(NcclShimTest, APartOfTheRanks) {
  ncclComm_t parts[kWorld] = {};
  each_rank([&](uint32_t rank) {
    push(rank);
    const int color = rank == 0 ? NCCL_SPLIT_NOCOLOR : 7;
    EXPECT_EQ(NCCL(ncclCommSplit)(ranks_[rank].comm, color, -static_cast<int>(rank), &parts[rank],
                                  nullptr),
              ncclSuccess)
        << error();
    pop();
  });
  EXPECT_EQ(parts[0], nullptr);
  ASSERT_NE(parts[1], nullptr);
  ASSERT_NE(parts[2], nullptr);
  for (uint32_t rank = 1; rank < kWorld; ++rank) {
    write(rank, {rank, rank, rank, rank});
    push(rank);
    EXPECT_EQ(NCCL(ncclBroadcast)(memory(rank), memory(rank), 4, ncclUint32, 0, parts[rank],
                                  ranks_[rank].stream),
              ncclSuccess)
        << error();
    EXPECT_EQ(NCCL(ncclBroadcast)(memory(rank), memory(rank), 4, ncclUint32, 2, parts[rank],
                                  ranks_[rank].stream),
              ncclInvalidArgument);
    pop();
  }
  for (uint32_t rank = 1; rank < kWorld; ++rank) {
    EXPECT_EQ(read(rank), (std::vector<uint32_t>{2, 2, 2, 2}));
    EXPECT_EQ(NCCL(ncclCommDestroy)(parts[rank]), ncclSuccess);
  }
  // The original communicator still works.
  for (uint32_t rank = 0; rank < kWorld; ++rank) write(rank, {1, 1, 1, 1});
  for (uint32_t rank = 0; rank < kWorld; ++rank) EXPECT_EQ(all_reduce(rank), ncclSuccess);
  for (uint32_t rank = 0; rank < kWorld; ++rank) EXPECT_EQ(read(rank)[0], 3u);
}

// One thread drives several ranks: no call starts before the end of the group.
TEST_F(NcclShimTest, AGroupOfSeveralRanks) {
  for (uint32_t rank = 0; rank < kWorld; ++rank) write(rank, {rank + 1, 0, 0, 0});
  ASSERT_EQ(NCCL(ncclGroupStart)(), ncclSuccess);
  for (uint32_t rank = 0; rank < kWorld; ++rank) EXPECT_EQ(all_reduce(rank), ncclSuccess);
  for (uint32_t rank = 0; rank < kWorld; ++rank) EXPECT_EQ(read(rank)[0], rank + 1);
  ASSERT_EQ(NCCL(ncclGroupEnd)(), ncclSuccess) << error();
  for (uint32_t rank = 0; rank < kWorld; ++rank) EXPECT_EQ(read(rank)[0], 6u);
  EXPECT_EQ(NCCL(ncclGroupEnd)(), ncclInvalidUsage);
}

TEST_F(NcclShimTest, AGroupWithACallThatIsRefusedDoesNothing) {
  for (uint32_t rank = 0; rank < kWorld; ++rank) write(rank, {5, 5, 5, 5});
  ASSERT_EQ(NCCL(ncclGroupStart)(), ncclSuccess);
  for (uint32_t rank = 0; rank < kWorld; ++rank) EXPECT_EQ(all_reduce(rank), ncclSuccess);
  EXPECT_EQ(all_reduce(0, static_cast<ncclRedOp_t>(99)), ncclInvalidArgument);
  EXPECT_EQ(NCCL(ncclGroupEnd)(), ncclInvalidArgument);
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    EXPECT_EQ(read(rank), (std::vector<uint32_t>{5, 5, 5, 5}));
  }
}

TEST_F(NcclShimTest, WhatIsRefused) {
  push(0);
  Rank& self = ranks_[0];
  EXPECT_EQ(
      NCCL(ncclAllReduce)(memory(0), memory(0), 1, ncclFloat8e4m3, ncclSum, self.comm, self.stream),
      ncclInvalidArgument);
  EXPECT_NE(error().find("float8_e4m3"), std::string::npos) << error();
  EXPECT_EQ(NCCL(ncclAlltoAll)(memory(0), memory(0), 1, ncclUint32, self.comm, self.stream),
            ncclInvalidArgument);
  EXPECT_EQ(NCCL(ncclBroadcast)(memory(0), memory(0), 1, ncclUint32, 3, self.comm, self.stream),
            ncclInvalidArgument);
  // Another device's stream.
  EXPECT_EQ(NCCL(ncclAllReduce)(memory(0), memory(0), 1, ncclUint32, ncclSum, self.comm,
                                ranks_[1].stream),
            ncclUnhandledCudaError);
  void* handle = nullptr;
  EXPECT_EQ(NCCL(ncclCommRegister)(self.comm, memory(0), 1 << 20, &handle), ncclInvalidArgument);
  EXPECT_EQ(NCCL(ncclCommDeregister)(self.comm, handle), ncclInvalidArgument);
  pop();
  // No device is current.
  EXPECT_EQ(
      NCCL(ncclAllReduce)(memory(0), memory(0), 1, ncclUint32, ncclSum, self.comm, self.stream),
      ncclUnhandledCudaError);
}

TEST_F(NcclShimTest, ConfigurationsThatAreRefused) {
  push(0);
  ncclUniqueId id;
  ASSERT_EQ(NCCL(ncclGetUniqueId)(&id), ncclSuccess) << error();
  const auto init = [&](const ncclConfig_t& config) {
    ncclConfig_t given = config;
    ncclComm_t comm = nullptr;
    const ncclResult_t result = NCCL(ncclCommInitRankConfig)(&comm, 1, id, 0, &given);
    EXPECT_EQ(comm, nullptr);
    return result;
  };
  const auto expect_refused = [&](const ncclConfig_t& config, const std::string& text) {
    EXPECT_EQ(init(config), ncclInvalidArgument);
    EXPECT_NE(error().find(text), std::string::npos) << error();
  };
  const ncclConfig_t good = NCCL_CONFIG_INITIALIZER;
  ncclConfig_t config = good;
  config.magic = 0;
  expect_refused(config, "not initialised");
  config = good;
  config.size = sizeof(size_t);  // too short for the magic
  expect_refused(config, "not initialised");
  config = good;
  config.blocking = 2;
  expect_refused(config, "blocking is 2");
  config = good;
  config.cgaClusterSize = -1;
  expect_refused(config, "cgaClusterSize is -1");
  config = good;
  config.maxCTAs = 0;
  expect_refused(config, "minCTAs/maxCTAs are");
  config = good;
  config.minCTAs = 5;
  config.maxCTAs = 4;
  expect_refused(config, "minCTAs/maxCTAs are 5/4");
  // Undefined is below any number, as NCCL compares.
  config.maxCTAs = NCCL_CONFIG_UNDEF_INT;
  expect_refused(config, "minCTAs/maxCTAs are 5/");
  config = good;
  config.netName = "Pigeon";
  EXPECT_EQ(init(config), ncclInvalidUsage);
  EXPECT_NE(error().find("network Pigeon not found"), std::string::npos) << error();
  pop();
}

// Reductions with a factor belong to a communicator and a type.
TEST_F(NcclShimTest, ReductionsWithAFactor) {
  uint32_t factor = 3;
  ncclRedOp_t op = ncclSum;
  ASSERT_EQ(NCCL(ncclRedOpCreatePreMulSum)(&op, &factor, ncclUint32, ncclScalarHostImmediate,
                                           ranks_[0].comm),
            ncclSuccess);
  EXPECT_EQ(all_reduce(1, op), ncclInvalidArgument);
  ASSERT_EQ(NCCL(ncclRedOpDestroy)(op, ranks_[0].comm), ncclSuccess);
  EXPECT_EQ(all_reduce(0, op), ncclInvalidArgument);
  EXPECT_EQ(NCCL(ncclRedOpDestroy)(op, ranks_[0].comm), ncclInvalidArgument);
}

// As with real NCCL, the stream continues.
TEST_F(NcclShimTest, AnAbortLeavesTheStreamAndItsContextWell) {
  write(0, {1, 2, 3, 4});
  ASSERT_EQ(all_reduce(0), ncclSuccess);
  ASSERT_EQ(NCCL(ncclCommAbort)(ranks_[0].comm), ncclSuccess);
  ranks_[0].comm = nullptr;
  EXPECT_EQ(read(0), (std::vector<uint32_t>{1, 2, 3, 4}));
  ncclResult_t said = ncclSuccess;
  EXPECT_EQ(NCCL(ncclCommGetAsyncError)(ranks_[1].comm, &said), ncclSuccess);
  EXPECT_EQ(said, ncclSystemError);
  EXPECT_NE(error().find("rank 0 has aborted"), std::string::npos) << error();
}

}  // namespace
