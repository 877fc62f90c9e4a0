// SPDX-License-Identifier: Apache-2.0
// Buffers of collectives outside of device memory: pinned memory of the device, and all memory of
// the process.
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "collectives/testing/local_ranks.h"

namespace keel {
namespace {

class CallerMemoryTest : public testing::LocalRanks {
 protected:
  // Runs an all_reduce and an all_gather over |data| of each rank, of 3 * |count| words, which the
  // host reaches.
  void expect_reduced(const std::array<uint32_t*, kWorld>& data, uint64_t count) {
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      for (uint64_t i = 0; i < kWorld * count; ++i) {
        data[rank][i] = static_cast<uint32_t>(1000 * rank + i % 997);
      }
      EXPECT_KEEL_OK(keel_all_reduce(comms_[rank], data[rank], data[rank], count, KEEL_UINT32,
                                     KEEL_SUM, streams_[rank]));
    }
    synchronize();
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(data[rank][i], 3000 + 3 * (i % 997)) << rank;
      for (uint64_t i = 0; i < count; ++i) data[rank][rank * count + i] = 7 * rank + 1;
    }
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      EXPECT_KEEL_OK(keel_all_gather(comms_[rank], data[rank] + rank * count, data[rank], count,
                                     KEEL_UINT32, streams_[rank]));
    }
    synchronize();
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      for (uint64_t i = 0; i < kWorld * count; ++i) {
        ASSERT_EQ(data[rank][i], 7 * (i / count) + 1) << rank;
      }
    }
  }
  // Runs an all_to_all in place over |data| of each rank, of 3 * |count| words.
  void expect_exchanged(const std::array<uint32_t*, kWorld>& data, uint64_t count) {
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      for (uint64_t i = 0; i < kWorld * count; ++i) {
        data[rank][i] = static_cast<uint32_t>(100 * rank + i / count);
      }
      EXPECT_KEEL_OK(keel_all_to_all(comms_[rank], data[rank], data[rank], count, KEEL_UINT32,
                                     streams_[rank]));
    }
    synchronize();
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      for (uint64_t i = 0; i < kWorld * count; ++i) {
        ASSERT_EQ(data[rank][i], 100 * (i / count) + rank) << "rank " << rank << ", word " << i;
      }
    }
  }
  void exchange(uint32_t* from, uint32_t* to, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) from[i] = static_cast<uint32_t>(i + 5);
    EXPECT_KEEL_OK(keel_send(comms_[0], from, count, KEEL_UINT32, 1, streams_[0]));
    EXPECT_KEEL_OK(keel_recv(comms_[1], to, count, KEEL_UINT32, 0, streams_[1]));
    synchronize();
    for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(to[i], i + 5);
  }

  static constexpr uint64_t kBytes = 1 << 20;
  static char* map() {
    void* const mapped =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(mapped, MAP_FAILED);
    return static_cast<char*>(mapped);
  }
  // One page, which hardly any other mapping is small enough to take.
  static void make_hole(char* mapped) {
    EXPECT_EQ(munmap(mapped + kBytes / 2, static_cast<size_t>(sysconf(_SC_PAGESIZE))), 0);
  }
  static void unmap(char* mapped) { EXPECT_EQ(munmap(mapped, kBytes), 0); }

  // Declares all memory for the CPU devices; false for other devices.
  bool register_all() {
    if (testing::test_backend() != "cpu") return false;
    for (keel_device device : devices_) {
      EXPECT_KEEL_OK(keel_host_register(device, nullptr, KEEL_ALL_MEMORY));
    }
    return true;
  }
  void unregister_all() {
    for (keel_device device : devices_) EXPECT_KEEL_OK(keel_host_unregister(device, nullptr));
  }
};

// Without native libraries, which may take no host memory.
class PinnedBuffersTest : public CallerMemoryTest {
 protected:
  PinnedBuffersTest() { options_.forbid_native = 1; }
};

TEST_F(PinnedBuffersTest, PinnedMemoryOfTheDeviceIsABuffer) {
  for (const uint64_t count : {8ULL, 1000ULL, 400'001ULL}) {
    std::array<uint32_t*, kWorld> data;
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      data[rank] = static_cast<uint32_t*>(allocate(rank, kWorld * 4 * count, KEEL_MEMORY_PINNED));
    }
    expect_reduced(data, count);
    expect_exchanged(data, count);
    exchange(data[0], data[1], count);
  }
}

TEST_F(PinnedBuffersTest, PinnedAndDeviceMemoryMeet) {
  constexpr uint64_t kCount = 100'000;
  std::array<void*, kWorld> data;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    if (rank == 1) {
      data[rank] = allocate(rank, 4 * kCount, KEEL_MEMORY_PINNED);
      std::fill_n(static_cast<uint32_t*>(data[rank]), kCount, 10u);
    } else {
      data[rank] = upload(rank, std::vector<uint32_t>(kCount, 1 + rank));
    }
    EXPECT_KEEL_OK(keel_all_reduce(comms_[rank], data[rank], data[rank], kCount, KEEL_UINT32,
                                   KEEL_SUM, streams_[rank]));
  }
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    const std::vector<uint32_t> wanted(kCount, 14);
    if (rank != 1) {
      EXPECT_EQ(download<uint32_t>(rank, data[rank], kCount), wanted);
      continue;
    }
    EXPECT_KEEL_OK(keel_stream_synchronize(streams_[rank], KEEL_TIMEOUT_DEFAULT));
    const auto* const words = static_cast<const uint32_t*>(data[rank]);
    EXPECT_EQ(std::vector<uint32_t>(words, words + kCount), wanted);
  }
}

TEST_F(CallerMemoryTest, PinnedMemoryOfAnotherDeviceIsRefused) {
  void* const pinned = allocate(1, 4096, KEEL_MEMORY_PINNED);
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "is not memory of",
               keel_send(comms_[0], pinned, 16, KEEL_UINT32, 1, streams_[0]));
}

TEST_F(CallerMemoryTest, AllMemoryNeedsNoRegistration) {
  if (!register_all()) GTEST_SKIP() << "not a CPU device";
  for (const uint64_t count : {8ULL, 1000ULL, 400'001ULL}) {
    std::vector<std::vector<uint32_t>> heap(kWorld, std::vector<uint32_t>(kWorld * count));
    std::array<uint32_t*, kWorld> data;
    for (uint32_t rank = 0; rank < kWorld; ++rank) data[rank] = heap[rank].data();
    for (int round = 0; round < 3; ++round) expect_reduced(data, count);
    exchange(data[0], data[1], count);
  }
  unregister_all();
  uint32_t word = 0;
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "is not memory of",
               keel_send(comms_[0], &word, 1, KEEL_UINT32, 1, streams_[0]));
}

TEST_F(CallerMemoryTest, StalePointerFailsOneOperationAndNamesItsOwner) {
  if (!register_all()) GTEST_SKIP() << "not a CPU device";
  std::array<void*, kWorld> data;
  for (uint32_t rank = 0; rank < kWorld; ++rank) data[rank] = allocate(rank, kBytes);
  const auto run = [&](void* stale) {
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      void* const buffer = rank == 1 ? stale : data[rank];
      const keel_status called = keel_all_reduce(comms_[rank], buffer, buffer, kBytes / 4,
                                                 KEEL_UINT32, KEEL_SUM, streams_[rank]);
      EXPECT_EQ(called, rank == 1 ? KEEL_INVALID_ARGUMENT : KEEL_OK) << keel_last_error();
    }
    EXPECT_FAILS(KEEL_RANK_FAILED, "rank 1",
                 keel_stream_synchronize(streams_[0], KEEL_TIMEOUT_DEFAULT));
    EXPECT_EQ(recover()[2], KEEL_RANK_FAILED);
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      EXPECT_KEEL_OK(keel_barrier(comms_[rank], streams_[rank]));
    }
    synchronize();
  };
  char* const mapped = map();
  make_hole(mapped);
  run(mapped);
  unmap(mapped);
  // Memory of Keel stays mapped when it is freed.
  void* freed = nullptr;
  ASSERT_KEEL_OK(keel_alloc(devices_[1], KEEL_MEMORY_DEVICE, kBytes, &freed));
  ASSERT_KEEL_OK(keel_free(devices_[1], freed));
  run(freed);
  unregister_all();
}

TEST_F(CallerMemoryTest, MemoryUnmappedBehindACallFailsTheOperation) {
  if (!register_all()) GTEST_SKIP() << "not a CPU device";
  char* const mapped = map();
  // Held, so that the operation's turn comes after the memory has gone.
  keel_gate gate = {};
  ASSERT_KEEL_OK(keel_gate_create(&gate));
  ASSERT_KEEL_OK(keel_stream_wait_gate(streams_[1], gate));
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    void* const data = rank == 1 ? mapped : allocate(rank, kBytes);
    EXPECT_KEEL_OK(keel_all_reduce(comms_[rank], data, data, kBytes / 4, KEEL_UINT32, KEEL_SUM,
                                   streams_[rank]));
  }
  make_hole(mapped);
  ASSERT_KEEL_OK(keel_gate_open(gate, KEEL_OK, nullptr));
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "unmapped",
               keel_stream_synchronize(streams_[1], KEEL_TIMEOUT_DEFAULT));
  EXPECT_FAILS(KEEL_RANK_FAILED, "rank 1",
               keel_stream_synchronize(streams_[0], KEEL_TIMEOUT_DEFAULT));
  recover();
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    EXPECT_KEEL_OK(keel_barrier(comms_[rank], streams_[rank]));
  }
  synchronize();
  EXPECT_KEEL_OK(keel_gate_destroy(gate));
  unmap(mapped);
  unregister_all();
}

TEST_F(CallerMemoryTest, AllMemoryIsTakenBackOnceUnusedAndCounted) {
  if (!register_all()) {
    EXPECT_EQ(keel_host_register(devices_[0], nullptr, KEEL_ALL_MEMORY), KEEL_UNSUPPORTED);
    return;
  }
  std::vector<uint32_t> word(1);
  EXPECT_KEEL_OK(keel_host_register(devices_[0], nullptr, KEEL_ALL_MEMORY));
  EXPECT_KEEL_OK(keel_host_unregister(devices_[0], nullptr));
  EXPECT_KEEL_OK(keel_recv(comms_[0], word.data(), 1, KEEL_UINT32, 1, streams_[0]));
  EXPECT_FAILS(KEEL_FAILED_PRECONDITION, "rank 0", keel_host_unregister(devices_[0], nullptr));
  EXPECT_KEEL_OK(keel_send(comms_[1], word.data(), 1, KEEL_UINT32, 0, streams_[1]));
  synchronize();
  unregister_all();
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "not registered", keel_host_unregister(devices_[0], nullptr));
}

}  // namespace
}  // namespace keel
