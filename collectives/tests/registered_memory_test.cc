// SPDX-License-Identifier: Apache-2.0
// Collectives on registered memory of the caller, through keel.h: registrations that nest, share a
// begin, repeat or adjoin, and what ends one of them behind an operation.
#include <gtest/gtest.h>
#include <keel/keel.h>

#include <string>
#include <thread>
#include <vector>

#include "core/testing/expect.h"

namespace {

constexpr uint64_t kCount = 5000;

// Element |i| of |rank|: a small integer, so that every sum is exact.
float value_of(uint32_t rank, uint64_t i) {
  return static_cast<float>((i * 7 + rank * 13) % 11) - 5;
}

std::vector<float> values(uint32_t rank) {
  std::vector<float> all(kCount);
  for (uint64_t i = 0; i < kCount; ++i) all[i] = value_of(rank, i);
  return all;
}

// Two ranks on the CPU with registered memory of the caller.
class RegisteredMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (keel_device_find("cpu", &cpu_) != KEEL_OK) GTEST_SKIP() << "no CPU device";
    const keel_device devices[] = {cpu_, cpu_};
    ASSERT_KEEL_OK(keel_comm_init_all(devices, 2, nullptr, comms_));
    for (uint32_t rank = 0; rank < 2; ++rank) {
      ASSERT_KEEL_OK(keel_stream_create(cpu_, 0, &streams_[rank]));
      memory_[rank] = values(rank);
      ASSERT_KEEL_OK(register_memory(rank));
    }
  }
  void TearDown() override {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      if (comms_[rank].id != 0) (void)keel_comm_destroy(comms_[rank]);
      if (streams_[rank].id == 0) continue;
      EXPECT_KEEL_OK(keel_stream_destroy(streams_[rank]));
    }
  }
  keel_status register_memory(uint32_t rank) { return register_part(rank, 0, kCount); }
  // Of |count| elements from element |first| on.
  keel_status register_part(uint32_t rank, uint64_t first, uint64_t count) {
    return keel_host_register(cpu_, memory_[rank].data() + first, count * sizeof(float));
  }
  keel_status unregister_part(uint32_t rank, uint64_t first) {
    return keel_host_unregister(cpu_, memory_[rank].data() + first);
  }
  keel_status unregister(uint32_t rank) { return keel_host_unregister(cpu_, memory_[rank].data()); }
  keel_status all_reduce(uint32_t rank, uint64_t count = kCount) {
    return keel_all_reduce(comms_[rank], memory_[rank].data(), memory_[rank].data(), count,
                           KEEL_FLOAT32, KEEL_SUM, streams_[rank]);
  }
  keel_status reduce_part(uint32_t rank, uint64_t first, uint64_t count) {
    float* const part = memory_[rank].data() + first;
    return keel_all_reduce(comms_[rank], part, part, count, KEEL_FLOAT32, KEEL_SUM, streams_[rank]);
  }
  // Reduces |count| elements from element |first| on. The ranks call one after the other: the first
  // rank's operation runs after its call.
  void expect_sum(uint64_t first, uint64_t count) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      for (uint64_t i = 0; i < kCount; ++i) memory_[rank][i] = value_of(rank, i);
      ASSERT_KEEL_OK(reduce_part(rank, first, count));
    }
    for (uint32_t rank = 0; rank < 2; ++rank) {
      ASSERT_KEEL_OK(synchronize(rank));
      for (uint64_t i = 0; i < kCount; ++i) {
        const bool is_reduced = first <= i && i < first + count;
        ASSERT_EQ(memory_[rank][i],
                  is_reduced ? value_of(0, i) + value_of(1, i) : value_of(rank, i))
            << "rank " << rank << ", element " << i;
      }
    }
  }
  // Not all of the elements are registered.
  void expect_no_buffer(uint64_t first, uint64_t count) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "is not memory of", reduce_part(rank, first, count));
    }
  }
  keel_status synchronize(uint32_t rank) {
    return keel_stream_synchronize(streams_[rank], KEEL_TIMEOUT_DEFAULT);
  }
  void expect_refused(uint32_t rank, const std::string& operation) {
    EXPECT_EQ(unregister(rank), KEEL_FAILED_PRECONDITION);
    const std::string text = keel_last_error();
    EXPECT_EQ(text.find(operation + " of rank " + std::to_string(rank)), 0u) << text;
  }

  keel_device cpu_ = {};
  keel_comm comms_[2] = {};
  keel_stream streams_[2] = {};
  std::vector<float> memory_[2];
};

TEST_F(RegisteredMemoryTest, IsNotUnregisteredBehindACollective) {
  for (const uint64_t count : {kCount, uint64_t{16}}) {
    SCOPED_TRACE(count);
    ASSERT_KEEL_OK(all_reduce(0, count));
    expect_refused(0, "all_reduce");
    EXPECT_KEEL_OK(unregister(1));
    EXPECT_KEEL_OK(register_memory(1));
    ASSERT_KEEL_OK(all_reduce(1, count));
    for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_KEEL_OK(synchronize(rank));
  }
  EXPECT_EQ(memory_[0], memory_[1]);
  for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_KEEL_OK(unregister(rank));
}

TEST_F(RegisteredMemoryTest, IsNotUnregisteredBehindAMessage) {
  ASSERT_KEEL_OK(keel_recv(comms_[1], memory_[1].data(), kCount, KEEL_FLOAT32, 0, streams_[1]));
  expect_refused(1, "send_recv");
  ASSERT_KEEL_OK(keel_send(comms_[0], memory_[0].data(), kCount, KEEL_FLOAT32, 1, streams_[0]));
  for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_KEEL_OK(synchronize(rank));
  EXPECT_EQ(memory_[0], memory_[1]);
  for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_KEEL_OK(unregister(rank));
}

TEST_F(RegisteredMemoryTest, SecondRegistrationIsTakenBackBehindACollective) {
  ASSERT_KEEL_OK(register_memory(0));
  ASSERT_KEEL_OK(all_reduce(0));
  EXPECT_KEEL_OK(unregister(0)) << "the first registration still covers the memory";
  expect_refused(0, "all_reduce");
  ASSERT_KEEL_OK(all_reduce(1));
  for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_KEEL_OK(synchronize(rank));
  for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_KEEL_OK(unregister(rank));
}

TEST_F(RegisteredMemoryTest, IsUnregisteredOnceTheCollectiveHasFailed) {
  ASSERT_KEEL_OK(all_reduce(0));
  ASSERT_KEEL_OK(keel_comm_abort(comms_[1]));
  EXPECT_EQ(synchronize(0), KEEL_ABORTED);
  for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_KEEL_OK(unregister(rank));
}

// A wait that has returned is proof enough, at once.
TEST_F(RegisteredMemoryTest, IsUnregisteredRightAfterTheWait) {
  constexpr int kTimes = 500;
  const auto drive = [&](uint32_t rank) {
    for (int i = 0; i < kTimes; ++i) {
      ASSERT_KEEL_OK(all_reduce(rank));
      ASSERT_KEEL_OK(synchronize(rank));
      ASSERT_KEEL_OK(unregister(rank));
      ASSERT_KEEL_OK(register_memory(rank));
    }
  };
  std::thread other([&] { drive(1); });
  drive(0);
  other.join();
  for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_KEEL_OK(unregister(rank));
}

// Registrations of one rank's memory that touch or overlap, and buffers that lie in several.
TEST_F(RegisteredMemoryTest, AdjacentRegistrationsHoldOneBuffer) {
  constexpr uint64_t kHalf = kCount / 2;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ASSERT_KEEL_OK(unregister(rank));
    ASSERT_KEEL_OK(register_part(rank, 0, kHalf));
  }
  expect_no_buffer(kHalf - 10, 20);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ASSERT_KEEL_OK(register_part(rank, kHalf, kCount - kHalf));
  }
  expect_sum(0, kCount);
  expect_sum(kHalf - 10, 20);
  // A pending operation keeps both.
  ASSERT_KEEL_OK(reduce_part(0, kHalf - 10, 20));
  for (const uint64_t first : {uint64_t{0}, kHalf}) {
    EXPECT_FAILS(KEEL_FAILED_PRECONDITION, "all_reduce of rank 0", unregister_part(0, first));
  }
  ASSERT_KEEL_OK(reduce_part(1, kHalf - 10, 20));
  for (uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_KEEL_OK(synchronize(rank));
    EXPECT_KEEL_OK(unregister_part(rank, 0));
  }
  expect_no_buffer(kHalf - 10, 20);
  expect_no_buffer(0, kHalf);
  expect_sum(kHalf, kCount - kHalf);
  for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_KEEL_OK(unregister_part(rank, kHalf));
}

TEST_F(RegisteredMemoryTest, InnerRegistrationEndsAlone) {
  constexpr uint64_t kFirst = 1000;
  for (uint32_t rank = 0; rank < 2; ++rank) ASSERT_KEEL_OK(register_part(rank, kFirst, 16));
  expect_sum(0, kCount);
  ASSERT_KEEL_OK(all_reduce(0));
  EXPECT_KEEL_OK(unregister_part(0, kFirst)) << "the outer registration covers the memory";
  ASSERT_KEEL_OK(all_reduce(1));
  for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_KEEL_OK(synchronize(rank));
  EXPECT_EQ(memory_[0], memory_[1]);
  EXPECT_KEEL_OK(unregister_part(1, kFirst));
  EXPECT_EQ(unregister_part(1, kFirst), KEEL_INVALID_ARGUMENT);
  expect_sum(0, kCount);
  expect_sum(kFirst, 16);
  for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_KEEL_OK(unregister(rank));
  expect_no_buffer(kFirst, 16);
}

TEST_F(RegisteredMemoryTest, OuterRegistrationEndsAlone) {
  constexpr uint64_t kFirst = 1000;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ASSERT_KEEL_OK(register_part(rank, kFirst, 16));
    EXPECT_KEEL_OK(unregister(rank));
  }
  expect_no_buffer(0, kCount);
  expect_no_buffer(kFirst, 17);
  expect_sum(kFirst, 16);
  for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_KEEL_OK(unregister_part(rank, kFirst));
}

TEST_F(RegisteredMemoryTest, LatestOfOneBeginEndsFirst) {
  for (uint32_t rank = 0; rank < 2; ++rank) ASSERT_KEEL_OK(register_part(rank, 0, 16));
  expect_sum(0, kCount);
  for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_KEEL_OK(unregister_part(rank, 0));
  expect_sum(0, kCount);
  // The other way round.
  for (uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_KEEL_OK(unregister(rank));
    ASSERT_KEEL_OK(register_part(rank, 0, 16));
    ASSERT_KEEL_OK(register_memory(rank));
  }
  expect_sum(0, kCount);
  for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_KEEL_OK(unregister(rank));
  expect_no_buffer(0, 17);
  expect_sum(0, 16);
  for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_KEEL_OK(unregister_part(rank, 0));
  expect_no_buffer(0, 16);
}

TEST_F(RegisteredMemoryTest, RepeatedRegistrationsAreCounted) {
  constexpr int kTimes = 3;  // with the first of SetUp
  for (int time = 1; time < kTimes; ++time) {
    for (uint32_t rank = 0; rank < 2; ++rank) ASSERT_KEEL_OK(register_memory(rank));
  }
  for (int time = 0; time < kTimes; ++time) {
    expect_sum(0, kCount);
    for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_KEEL_OK(unregister(rank));
  }
  expect_no_buffer(0, kCount);
  EXPECT_EQ(unregister(0), KEEL_INVALID_ARGUMENT);
}

TEST_F(RegisteredMemoryTest, WholeAddressSpaceIsOneRegistration) {
  void* const begin = reinterpret_cast<void*>(uintptr_t{4096});
  for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_KEEL_OK(unregister(rank));
  ASSERT_KEEL_OK(keel_host_register(cpu_, begin, (uint64_t{1} << 47) - 8192));
  expect_sum(0, kCount);
  for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_KEEL_OK(register_memory(rank));
  EXPECT_KEEL_OK(keel_host_unregister(cpu_, begin));
  expect_sum(0, kCount);
  for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_KEEL_OK(unregister(rank));
  expect_no_buffer(0, kCount);
}

// Memory of the caller, with the same addresses on CPU devices.
TEST(CollectiveBuffers, MemoryTheCallerHasRegisteredServesOnACpuDevice) {
  keel_device cpu;
  if (keel_device_find("cpu", &cpu) != KEEL_OK) GTEST_SKIP() << "no CPU device";
  const keel_device devices[] = {cpu, cpu};
  keel_comm comms[2];
  ASSERT_KEEL_OK(keel_comm_init_all(devices, 2, nullptr, comms));
  std::vector<float> memory[2] = {values(0), values(1)};
  keel_stream streams[2];
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ASSERT_KEEL_OK(keel_stream_create(cpu, 0, &streams[rank]));
    EXPECT_NE(KEEL_OK, keel_all_reduce(comms[rank], memory[rank].data(), memory[rank].data(),
                                       kCount, KEEL_FLOAT32, KEEL_SUM, streams[rank]))
        << "not registered yet";
    ASSERT_KEEL_OK(keel_host_register(cpu, memory[rank].data(), kCount * 4));
    EXPECT_NE(KEEL_OK, keel_all_reduce(comms[rank], memory[rank].data(), memory[rank].data(),
                                       kCount + 1, KEEL_FLOAT32, KEEL_SUM, streams[rank]))
        << "beyond what is registered";
  }
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ASSERT_KEEL_OK(keel_all_reduce(comms[rank], memory[rank].data(), memory[rank].data(), kCount,
                                   KEEL_FLOAT32, KEEL_SUM, streams[rank]));
  }
  for (uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_KEEL_OK(keel_stream_synchronize(streams[rank], KEEL_TIMEOUT_DEFAULT));
  }
  for (uint64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(memory[0][i], value_of(0, i) + value_of(1, i)) << i;
  }
  EXPECT_EQ(memory[0], memory[1]);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_KEEL_OK(keel_host_unregister(cpu, memory[rank].data()));
    EXPECT_KEEL_OK(keel_comm_destroy(comms[rank]));
    EXPECT_KEEL_OK(keel_stream_destroy(streams[rank]));
  }
}

}  // namespace
