// Corners of the collectives: two threads on one communicator, more elements than 32 bits
// count, memory of another device, factors that a dtype has not.
#include <gtest/gtest.h>
#include <keel/keel.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "core/testing/test_backend.h"

namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr uint32_t kWorld = 2;

#define EXPECT_KEEL_OK(expression) EXPECT_EQ(KEEL_OK, expression) << keel_last_error()
#define ASSERT_KEEL_OK(expression) ASSERT_EQ(KEEL_OK, expression) << keel_last_error()
#define EXPECT_FAILS(code, text, expression)                                \
  do {                                                                      \
    EXPECT_EQ(code, expression) << keel_last_error();                       \
    EXPECT_NE(std::string(keel_last_error()).find(text), std::string::npos) \
        << "no '" << (text) << "' in: " << keel_last_error();               \
  } while (false)

class CollectiveEdges : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    keel::testing::set_test_devices(kWorld);
    auto options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
    const std::string backend = keel::testing::test_backend();
    options.backends = backend.c_str();
    options.default_timeout_ns = 60 * kSecond;
    ASSERT_KEEL_OK(keel_init(&options));
  }
  static void TearDownTestSuite() { EXPECT_KEEL_OK(keel_shutdown()); }

  void SetUp() override {
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      ASSERT_KEEL_OK(keel_device_get(rank, &devices_[rank]));
      ASSERT_KEEL_OK(keel_stream_create(devices_[rank], 0, &streams_[rank]));
    }
    ASSERT_KEEL_OK(keel_comm_init_all(devices_.data(), kWorld, nullptr, comms_.data()));
  }
  void TearDown() override {
    for (keel_comm comm : comms_) EXPECT_KEEL_OK(keel_comm_destroy(comm));
    for (keel_stream stream : streams_) keel_stream_destroy(stream);
    for (const auto& [device, pointer] : memory_) keel_free(device, pointer);
  }
  void* allocate(uint32_t rank, uint64_t bytes) {
    void* pointer = nullptr;
    EXPECT_KEEL_OK(keel_alloc(devices_[rank], KEEL_MEMORY_DEVICE, bytes, &pointer));
    memory_.emplace_back(devices_[rank], pointer);
    return pointer;
  }

  std::array<keel_device, kWorld> devices_;
  std::array<keel_stream, kWorld> streams_;
  std::array<keel_comm, kWorld> comms_;
  std::vector<std::pair<keel_device, void*>> memory_;
};

// Both ranks may get the two threads' calls in one order, and then they work, or in
// different ones, and then each of them meets another.
TEST_F(CollectiveEdges, TwoThreadsOnOneCommunicatorGetAnOrderOrAMismatch) {
  constexpr uint32_t kThreads = 2;
  constexpr uint32_t kRounds = 100;
  struct One {
    keel_stream stream;
    void* data;
  };
  std::array<std::array<One, kWorld>, kThreads> all;
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      One& one = all[thread][rank];
      one.data = allocate(rank, 4096);
      ASSERT_KEEL_OK(keel_stream_create(devices_[rank], 0, &one.stream));
    }
  }
  uint32_t agreed = 0;
  for (uint32_t round = 0; round < kRounds; ++round) {
    std::vector<std::thread> threads;
    for (uint32_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (uint32_t rank = 0; rank < kWorld; ++rank) {
          const One& one = all[thread][rank];
          EXPECT_KEEL_OK(keel_all_reduce(comms_[rank], one.data, one.data, 10 + thread, KEEL_INT32,
                                         KEEL_MAX, one.stream));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    uint32_t good = 0;
    for (const auto& ranks : all) {
      for (const One& one : ranks) {
        const keel_status status = keel_stream_synchronize(one.stream, KEEL_TIMEOUT_DEFAULT);
        if (status == KEEL_OK) {
          ++good;
          continue;
        }
        EXPECT_EQ(status, KEEL_INVALID_ARGUMENT) << keel_last_error();
        EXPECT_NE(std::string(keel_last_error()).find("mismatch"), std::string::npos);
        EXPECT_KEEL_OK(keel_stream_recover(one.stream, KEEL_TIMEOUT_DEFAULT));
      }
    }
    EXPECT_TRUE(good == 0 || good == kThreads * kWorld) << good << " of 4 worked";
    agreed += good == 0 ? 0 : 1;
  }
  std::printf("%u of %u rounds had one order\n", agreed, kRounds);
  for (const auto& ranks : all) {
    for (const One& one : ranks) keel_stream_destroy(one.stream);
  }
}

TEST_F(CollectiveEdges, MemoryOfAnotherDeviceIsRefusedAndIsNoCall) {
  void* const data[kWorld] = {allocate(0, 400), allocate(1, 400)};
  if (data[0] == data[1]) GTEST_SKIP() << "the two devices use the same addresses";
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    const uint32_t other = 1 - rank;
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "send",
                 keel_all_reduce(comms_[rank], data[other], data[rank], 100, KEEL_INT32, KEEL_SUM,
                                 streams_[rank]));
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "receive",
                 keel_all_reduce(comms_[rank], data[rank], data[other], 100, KEEL_INT32, KEEL_SUM,
                                 streams_[rank]));
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "receive",
                 keel_recv(comms_[rank], data[other], 100, KEEL_INT32, other, streams_[rank]));
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "stream", keel_barrier(comms_[rank], streams_[other]));
  }
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    EXPECT_KEEL_OK(keel_all_reduce(comms_[rank], data[rank], data[rank], 100, KEEL_INT32, KEEL_SUM,
                                   streams_[rank]));
  }
  for (keel_stream stream : streams_) {
    EXPECT_KEEL_OK(keel_stream_synchronize(stream, KEEL_TIMEOUT_DEFAULT));
  }
}

// What goes on in any order must not overlap; what is refused leaves the group as it was.
TEST_F(CollectiveEdges, MessagesOfAGroupThatOverlapAreRefusedAndNamed) {
  constexpr uint64_t kCount = 100;
  std::array<int32_t*, kWorld> data;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    data[rank] = static_cast<int32_t*>(allocate(rank, 4 * kCount * sizeof(int32_t)));
    EXPECT_KEEL_OK(keel_fill(streams_[rank], data[rank], &rank, 4, 4 * kCount * sizeof(int32_t)));
  }
  const auto send = [&](uint32_t rank, int32_t* from, uint64_t count) {
    return keel_send(comms_[rank], from, count, KEEL_INT32, 1 - rank, streams_[rank]);
  };
  const auto receive = [&](uint32_t rank, int32_t* to, uint64_t count) {
    return keel_recv(comms_[rank], to, count, KEEL_INT32, 1 - rank, streams_[rank]);
  };
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT,
               "the receive of 100 int32 from rank 1 overlaps the send of 100 int32 to rank 1",
               keel_send_recv(comms_[0], data[0], kCount, 1, data[0] + kCount - 1, kCount, 1,
                              KEEL_INT32, streams_[0]));
  EXPECT_KEEL_OK(keel_group_start());
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    const std::string peer = std::to_string(1 - rank);
    int32_t* const own = data[rank];
    EXPECT_KEEL_OK(send(rank, own, kCount));
    EXPECT_KEEL_OK(send(rank, own + kCount / 2, kCount));  // sources may overlap
    EXPECT_KEEL_OK(receive(rank, own + 2 * kCount, kCount));
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT,
                 "the receive of 1 int32 from rank " + peer + " overlaps the send of 100 int32",
                 receive(rank, own + kCount + kCount / 2 - 1, 1));
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT,
                 "the receive of 400 int32 from rank " + peer + " overlaps the send of 100 int32",
                 receive(rank, own, 4 * kCount));
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT,
                 "the receive of 50 int32 from rank " + peer + " overlaps the receive of 100 int32",
                 receive(rank, own + 3 * kCount - 1, 50));
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT,
                 "the send of 3 int32 to rank " + peer + " overlaps the receive of 100 int32",
                 send(rank, own + 2 * kCount - 2, 3));
    // Of two, one good: neither is taken.
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "overlaps the receive of 100 int32",
                 keel_send_recv(comms_[rank], own, 1, 1 - rank, own + 2 * kCount, 1, 1 - rank,
                                KEEL_INT32, streams_[rank]));
    EXPECT_KEEL_OK(receive(rank, own + 3 * kCount, kCount));  // they may touch
    EXPECT_KEEL_OK(receive(rank, own + 3 * kCount, 0));       // and nothing overlaps nothing
    EXPECT_KEEL_OK(send(rank, own + 3 * kCount, 0));
  }
  EXPECT_KEEL_OK(keel_group_end());
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    std::array<uint32_t, 4 * kCount> values;
    EXPECT_KEEL_OK(keel_copy(streams_[rank], KEEL_HOST, values.data(), devices_[rank], data[rank],
                             sizeof(values)));
    EXPECT_KEEL_OK(keel_stream_synchronize(streams_[rank], KEEL_TIMEOUT_DEFAULT));
    for (uint64_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(values[i], i < 2 * kCount ? rank : 1 - rank) << "rank " << rank << ", " << i;
    }
  }
}

// Two streams of a rank are two operations, of which the second begins after the first.
TEST_F(CollectiveEdges, MessagesOfTwoStreamsOfAGroupMayOverlap) {
  keel_stream others[kWorld] = {};
  void* data[kWorld] = {};
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    ASSERT_KEEL_OK(keel_stream_create(devices_[rank], 0, &others[rank]));
    data[rank] = allocate(rank, 400);
  }
  EXPECT_KEEL_OK(keel_group_start());
  EXPECT_KEEL_OK(keel_send(comms_[0], data[0], 100, KEEL_INT32, 1, streams_[0]));
  EXPECT_KEEL_OK(keel_recv(comms_[0], data[0], 100, KEEL_INT32, 1, others[0]));
  EXPECT_KEEL_OK(keel_recv(comms_[1], data[1], 100, KEEL_INT32, 0, streams_[1]));
  EXPECT_KEEL_OK(keel_send(comms_[1], data[1], 100, KEEL_INT32, 0, others[1]));
  EXPECT_KEEL_OK(keel_group_end());
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    EXPECT_KEEL_OK(keel_stream_synchronize(streams_[rank], KEEL_TIMEOUT_DEFAULT));
    EXPECT_KEEL_OK(keel_stream_synchronize(others[rank], KEEL_TIMEOUT_DEFAULT));
    keel_stream_destroy(others[rank]);
  }
}

TEST_F(CollectiveEdges, AFactorThatTheDtypeHasNotIsRefused) {
  void* const data = allocate(0, 400);
  for (const double factor : {0.5, std::nan(""), 0x1p64, -double{INFINITY}}) {
    keel_reduction reduction = 0;
    ASSERT_KEEL_OK(keel_premul_sum_create(comms_[0], factor, &reduction));
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "factor",
                 keel_all_reduce(comms_[0], data, data, 100, KEEL_INT32, reduction, streams_[0]));
  }
  // A number of one communicator is none of another.
  keel_reduction reduction = 0;
  ASSERT_KEEL_OK(keel_premul_sum_create(comms_[0], 3, &reduction));
  void* const other = allocate(1, 400);
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "reduction",
               keel_all_reduce(comms_[1], other, other, 100, KEEL_INT32, reduction, streams_[1]));
}

[[maybe_unused]] uint64_t available_gigabytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  uint64_t kilobytes = 0;
  std::string unit;
  while (file >> name >> kilobytes >> unit) {
    if (name == "MemAvailable:") return kilobytes >> 20;
  }
  return 0;
}

TEST_F(CollectiveEdges, MoreElementsThan32BitsCount) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs several times the memory";
#else
  if (keel::testing::test_backend() != "cpu" || std::getenv("KEEL_CPU_GUARD") != nullptr ||
      std::getenv("KEEL_VALIDATE") != nullptr) {
    GTEST_SKIP() << "needs 4 GiB that the host reaches; once is enough";
  }
  if (available_gigabytes() < 8) {
    GTEST_SKIP() << "only " << available_gigabytes() << " GiB of memory available, not 8";
  }
  constexpr uint64_t kElements = (uint64_t{1} << 31) + 5;
  const auto expected = [](uint64_t i) { return static_cast<uint8_t>((i >> 12) % 100 + 3); };
  std::array<uint8_t*, kWorld> data;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    void* const memory = allocate(rank, kElements);
    auto info = KEEL_STRUCT_INIT(keel_memory_info, KEEL_STRUCT_MEMORY_INFO);
    ASSERT_KEEL_OK(keel_memory_find(devices_[rank], memory, &info));
    ASSERT_NE(info.host_alias, nullptr);
    data[rank] = static_cast<uint8_t*>(info.host_alias);
    // By pages: (i >> 12) % 100 of rank 0, and 3 of rank 1.
    for (uint64_t i = 0; i < kElements; i += 4096) {
      std::memset(data[rank] + i, rank == 0 ? expected(i) - 3 : 3,
                  std::min<uint64_t>(4096, kElements - i));
    }
    ASSERT_KEEL_OK(keel_all_reduce(comms_[rank], memory, memory, kElements, KEEL_INT8, KEEL_SUM,
                                   streams_[rank]));
  }
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    ASSERT_KEEL_OK(keel_stream_synchronize(streams_[rank], KEEL_TIMEOUT_DEFAULT));
    std::array<uint8_t, 4096> page;
    for (uint64_t i = 0; i < kElements; i += page.size()) {
      page.fill(expected(i));
      ASSERT_EQ(
          std::memcmp(data[rank] + i, page.data(), std::min<uint64_t>(page.size(), kElements - i)),
          0)
          << "rank " << rank << ", near element " << i;
    }
  }
#endif
}

}  // namespace
