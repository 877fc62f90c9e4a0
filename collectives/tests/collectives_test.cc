// SPDX-License-Identifier: Apache-2.0
// Collectives through keel.h on three devices of the backend under test and all further devices;
// through host aliases and through staging; against a serial reference.
#include <gtest/gtest.h>
#include <keel/keel.h>

#include <cstring>
#include <keel/plugin_kit.hpp>
#include <string>
#include <thread>
#include <vector>

#include "core/testing/expect.h"
#include "core/testing/test_backend.h"

namespace {

constexpr int64_t kSecond = 1'000'000'000;

// The devices for the ranks, round robin.
std::vector<keel_device> all_devices() {
  uint32_t count = 0;
  EXPECT_KEEL_OK(keel_device_count(&count));
  std::vector<keel_device> devices(count);
  for (uint32_t i = 0; i < count; ++i) EXPECT_KEEL_OK(keel_device_get(i, &devices[i]));
  return devices;
}

class KeelEnvironment : public testing::Environment {
 public:
  void SetUp() override {
    keel::testing::set_test_devices(3);
    auto options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
    options.default_timeout_ns = 60 * kSecond;
    ASSERT_KEEL_OK(keel_init(&options));
  }
  void TearDown() override { EXPECT_KEEL_OK(keel_shutdown()); }
};
const auto* const g_environment = testing::AddGlobalTestEnvironment(new KeelEnvironment);

// Ranks on their devices, with a stream each, and buffers freed at the end.
class Ranks {
 public:
  Ranks(uint32_t world, bool staged, int64_t timeout_ns = 0, uint64_t chunk_bytes = 4096) {
    const std::vector<keel_device> available = all_devices();
    for (uint32_t rank = 0; rank < world; ++rank) {
      // Backwards, so the last device (Vulkan's) takes part in every world.
      devices_.push_back(available[(available.size() * world - 1 - rank) % available.size()]);
    }
    auto options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
    options.forbid_alias = staged ? 1 : 0;
    options.timeout_ns = timeout_ns;
    options.chunk_bytes = chunk_bytes;  // small, so that little data has many chunks
    comms_.resize(world);
    EXPECT_KEEL_OK(keel_comm_init_all(devices_.data(), world, &options, comms_.data()));
    streams_.resize(world);
    for (uint32_t rank = 0; rank < world; ++rank) {
      EXPECT_KEEL_OK(keel_stream_create(devices_[rank], 0, &streams_[rank]));
    }
  }
  ~Ranks() {
    for (keel_comm comm : comms_) keel_comm_destroy(comm);
    for (keel_stream stream : streams_) EXPECT_KEEL_OK(keel_stream_destroy(stream));
    for (const auto& [device, pointer] : buffers_) EXPECT_KEEL_OK(keel_free(device, pointer));
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  uint32_t world() const { return static_cast<uint32_t>(comms_.size()); }
  keel_comm comm(uint32_t rank) const { return comms_[rank]; }
  keel_stream stream(uint32_t rank) const { return streams_[rank]; }
  keel_device device(uint32_t rank) const { return devices_[rank]; }

  void* allocate(uint32_t rank, uint64_t bytes) {
    void* pointer = nullptr;
    EXPECT_KEEL_OK(keel_alloc(devices_[rank], KEEL_MEMORY_DEVICE, bytes, &pointer));
    buffers_.emplace_back(devices_[rank], pointer);
    return pointer;
  }
  void upload(uint32_t rank, void* destination, const std::string& bytes) {
    EXPECT_KEEL_OK(keel_copy(streams_[rank], devices_[rank], destination, KEEL_HOST, bytes.data(),
                             bytes.size()));
    EXPECT_KEEL_OK(keel_stream_synchronize(streams_[rank], KEEL_TIMEOUT_DEFAULT));
  }
  std::string download(uint32_t rank, const void* source, uint64_t bytes) {
    std::string result(bytes, '\0');
    EXPECT_KEEL_OK(
        keel_copy(streams_[rank], KEEL_HOST, result.data(), devices_[rank], source, bytes));
    EXPECT_KEEL_OK(keel_stream_synchronize(streams_[rank], KEEL_TIMEOUT_DEFAULT));
    return result;
  }
  keel_status synchronize(uint32_t rank) {
    return keel_stream_synchronize(streams_[rank], KEEL_TIMEOUT_DEFAULT);
  }

 private:
  std::vector<keel_device> devices_;
  std::vector<keel_comm> comms_;
  std::vector<keel_stream> streams_;
  std::vector<std::pair<keel_device, void*>> buffers_;
};

// Element |i| of rank |rank|: small integers make every order of summation exact.
int value_of(uint32_t rank, uint64_t i) {
  return static_cast<int>((i * 7 + rank * 13) % 11) - 5;
}

std::string floats(uint32_t rank, uint64_t first, uint64_t count) {
  std::string bytes(count * sizeof(float), '\0');
  for (uint64_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(value_of(rank, first + i));
    std::memcpy(&bytes[i * sizeof(float)], &value, sizeof(value));
  }
  return bytes;
}

std::string sums(uint32_t world, uint64_t first, uint64_t count) {
  std::string bytes(count * sizeof(float), '\0');
  for (uint64_t i = 0; i < count; ++i) {
    float sum = 0;
    for (uint32_t rank = 0; rank < world; ++rank) {
      sum += static_cast<float>(value_of(rank, first + i));
    }
    std::memcpy(&bytes[i * sizeof(float)], &sum, sizeof(sum));
  }
  return bytes;
}

struct Shape {
  uint32_t world;
  bool staged;
  bool in_place;
};

class Collectives : public testing::TestWithParam<Shape> {
 protected:
  // 1025 floats make two chunks, 5000 five.
  static constexpr uint64_t kCounts[] = {1, 3, 1024, 1025, 5000};
};

TEST_P(Collectives, AllReduce) {
  const auto [world, staged, in_place] = GetParam();
  Ranks ranks(world, staged);
  for (uint64_t count : kCounts) {
    std::vector<void*> receive(world);
    for (uint32_t rank = 0; rank < world; ++rank) {
      void* send = ranks.allocate(rank, count * 4);
      receive[rank] = in_place ? send : ranks.allocate(rank, count * 4);
      ranks.upload(rank, send, floats(rank, 0, count));
      ASSERT_KEEL_OK(keel_all_reduce(ranks.comm(rank), send, receive[rank], count, KEEL_FLOAT32,
                                     KEEL_SUM, ranks.stream(rank)));
    }
    for (uint32_t rank = 0; rank < world; ++rank) {
      EXPECT_EQ(ranks.download(rank, receive[rank], count * 4), sums(world, 0, count))
          << "rank " << rank << ", count " << count;
    }
  }
}

TEST_P(Collectives, Broadcast) {
  const auto [world, staged, in_place] = GetParam();
  Ranks ranks(world, staged);
  for (uint64_t count : kCounts) {
    const auto root = static_cast<uint32_t>(count % world);
    std::vector<void*> receive(world);
    for (uint32_t rank = 0; rank < world; ++rank) {
      receive[rank] = ranks.allocate(rank, count * 4);
      void* send = nullptr;
      if (rank == root) {
        send = in_place ? receive[rank] : ranks.allocate(rank, count * 4);
        ranks.upload(rank, send, floats(root, 0, count));
      }
      ASSERT_KEEL_OK(keel_broadcast(ranks.comm(rank), send, receive[rank], count, KEEL_FLOAT32,
                                    root, ranks.stream(rank)));
    }
    for (uint32_t rank = 0; rank < world; ++rank) {
      EXPECT_EQ(ranks.download(rank, receive[rank], count * 4), floats(root, 0, count))
          << "rank " << rank << ", count " << count;
    }
  }
}

TEST_P(Collectives, AllGather) {
  const auto [world, staged, in_place] = GetParam();
  Ranks ranks(world, staged);
  for (uint64_t count : kCounts) {
    std::string expected;
    std::vector<void*> receive(world);
    for (uint32_t rank = 0; rank < world; ++rank) {
      expected += floats(rank, 0, count);
      receive[rank] = ranks.allocate(rank, world * count * 4);
      void* send = in_place ? static_cast<char*>(receive[rank]) + rank * count * 4
                            : ranks.allocate(rank, count * 4);
      ranks.upload(rank, send, floats(rank, 0, count));
      ASSERT_KEEL_OK(keel_all_gather(ranks.comm(rank), send, receive[rank], count, KEEL_FLOAT32,
                                     ranks.stream(rank)));
    }
    for (uint32_t rank = 0; rank < world; ++rank) {
      EXPECT_EQ(ranks.download(rank, receive[rank], world * count * 4), expected)
          << "rank " << rank << ", count " << count;
    }
  }
}

TEST_P(Collectives, ReduceScatter) {
  const auto [world, staged, in_place] = GetParam();
  Ranks ranks(world, staged);
  for (uint64_t count : kCounts) {
    std::vector<void*> receive(world);
    for (uint32_t rank = 0; rank < world; ++rank) {
      void* send = ranks.allocate(rank, world * count * 4);
      receive[rank] =
          in_place ? static_cast<char*>(send) + rank * count * 4 : ranks.allocate(rank, count * 4);
      ranks.upload(rank, send, floats(rank, 0, world * count));
      ASSERT_KEEL_OK(keel_reduce_scatter(ranks.comm(rank), send, receive[rank], count, KEEL_FLOAT32,
                                         KEEL_SUM, ranks.stream(rank)));
    }
    for (uint32_t rank = 0; rank < world; ++rank) {
      EXPECT_EQ(ranks.download(rank, receive[rank], count * 4), sums(world, rank * count, count))
          << "rank " << rank << ", count " << count;
    }
  }
}

TEST_P(Collectives, BarrierAndNothing) {
  const auto [world, staged, in_place] = GetParam();
  Ranks ranks(world, staged);
  for (uint32_t rank = 0; rank < world; ++rank) {
    ASSERT_KEEL_OK(keel_barrier(ranks.comm(rank), ranks.stream(rank)));
    ASSERT_KEEL_OK(keel_all_reduce(ranks.comm(rank), nullptr, nullptr, 0, KEEL_FLOAT32, KEEL_SUM,
                                   ranks.stream(rank)));
  }
  for (uint32_t rank = 0; rank < world; ++rank) EXPECT_KEEL_OK(ranks.synchronize(rank));
}

std::string shape_name(const testing::TestParamInfo<Shape>& info) {
  return std::to_string(info.param.world) + (info.param.staged ? "_staged" : "_alias") +
         (info.param.in_place ? "_in_place" : "");
}

INSTANTIATE_TEST_SUITE_P(Worlds, Collectives,
                         testing::Values(Shape{1, false, false}, Shape{1, true, true},
                                         Shape{2, false, true}, Shape{2, true, false},
                                         Shape{3, false, false}, Shape{3, true, true},
                                         Shape{5, false, true}, Shape{5, true, false}),
                         shape_name);

TEST(CollectiveOrder, EveryDtypeIsBitIdenticalOnAllRanks) {
  Ranks ranks(3, /*staged=*/true);
  constexpr uint64_t kCount = 777;
  for (keel_dtype dtype = 1; dtype < KEEL_DTYPE_COUNT; ++dtype) {
    for (keel_reduction reduction = KEEL_SUM; reduction <= KEEL_AVG; ++reduction) {
      const uint64_t bytes = kCount * keel::kit::dtype_size(dtype);
      std::vector<void*> data(3);
      for (uint32_t rank = 0; rank < 3; ++rank) {
        data[rank] = ranks.allocate(rank, bytes);
        std::string content(bytes, '\0');
        for (uint64_t i = 0; i < bytes; ++i) {
          content[i] = static_cast<char>((i * 31 + rank * 17 + dtype) % 127);
        }
        ranks.upload(rank, data[rank], content);
        ASSERT_KEEL_OK(keel_all_reduce(ranks.comm(rank), data[rank], data[rank], kCount, dtype,
                                       reduction, ranks.stream(rank)));
      }
      const std::string first = ranks.download(0, data[0], bytes);
      EXPECT_EQ(first, ranks.download(1, data[1], bytes)) << dtype << " " << reduction;
      EXPECT_EQ(first, ranks.download(2, data[2], bytes)) << dtype << " " << reduction;
    }
  }
}

// The n-th call of a rank meets the n-th call of its peers, in any interleaving.
TEST(CollectiveOrder, OneThreadMayDriveOneRankFarAheadOfTheOthers) {
  Ranks ranks(3, /*staged=*/true);
  constexpr uint32_t kRounds = 20;
  std::vector<void*> data(3);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    data[rank] = ranks.allocate(rank, 4);
    ranks.upload(rank, data[rank], floats(0, 1, 1));
    for (uint32_t round = 0; round < kRounds; ++round) {
      ASSERT_KEEL_OK(keel_all_reduce(ranks.comm(rank), data[rank], data[rank], 1, KEEL_FLOAT32,
                                     KEEL_MAX, ranks.stream(rank)));
    }
  }
  for (uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks.download(rank, data[rank], 4), floats(0, 1, 1));
  }
}

TEST(CollectiveOrder, AThreadARankOnTwoCommunicatorsAtOnce) {
  Ranks first(3, /*staged=*/true);
  Ranks second(3, /*staged=*/false);
  constexpr uint64_t kCount = 3000;
  std::vector<std::thread> threads;
  for (Ranks* ranks : {&first, &second}) {
    std::vector<void*> data(3);
    for (uint32_t rank = 0; rank < 3; ++rank) {
      data[rank] = ranks->allocate(rank, kCount * 4);
      ranks->upload(rank, data[rank], floats(rank, 0, kCount));
    }
    for (uint32_t rank = 0; rank < 3; ++rank) {
      threads.emplace_back([ranks, rank, buffer = data[rank]] {
        EXPECT_KEEL_OK(keel_all_reduce(ranks->comm(rank), buffer, buffer, kCount, KEEL_FLOAT32,
                                       KEEL_SUM, ranks->stream(rank)));
        for (int round = 0; round < 10; ++round) {
          EXPECT_KEEL_OK(keel_all_reduce(ranks->comm(rank), buffer, buffer, kCount, KEEL_FLOAT32,
                                         KEEL_MAX, ranks->stream(rank)));
        }
        EXPECT_EQ(ranks->download(rank, buffer, kCount * 4), sums(3, 0, kCount));
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
}

// The blocks stay until the collective is complete, as for copies and operators.
TEST(CollectiveBuffers, MemoryFreedBehindACollectiveServesUntilItsEnd) {
  for (const bool staged : {false, true}) {
    for (const bool on_stream : {false, true}) {
      for (const uint64_t count : {7, 1000, 100003}) {
        SCOPED_TRACE(std::string(staged ? "staged" : "alias") +
                     (on_stream ? ", keel_free_on_stream, " : ", keel_free, ") +
                     std::to_string(count));
        Ranks ranks(3, staged);
        const uint64_t bytes = count * sizeof(float);
        std::vector<void*> results(ranks.world());
        std::vector<std::string> sent(ranks.world());
        for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
          results[rank] = ranks.allocate(rank, 2 * bytes);
          sent[rank] = floats(rank, 0, count);
        }
        const auto free = [&](uint32_t rank, void* pointer) {
          EXPECT_KEEL_OK(on_stream ? keel_free_on_stream(ranks.stream(rank), pointer)
                                   : keel_free(ranks.device(rank), pointer));
        };
        // The first ranks' operations run after their calls: the last rank has not called yet.
        for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
          const keel_stream stream = ranks.stream(rank);
          const keel_device device = ranks.device(rank);
          void* summed = nullptr;
          void* received = nullptr;
          ASSERT_KEEL_OK(keel_alloc_on_stream(stream, bytes, &summed));
          ASSERT_KEEL_OK(keel_alloc_on_stream(stream, bytes, &received));
          ASSERT_KEEL_OK(keel_copy(stream, device, summed, KEEL_HOST, sent[rank].data(), bytes));
          ASSERT_KEEL_OK(keel_send_recv(ranks.comm(rank), summed, count, (rank + 1) % 3, received,
                                        count, (rank + 2) % 3, KEEL_FLOAT32, stream));
          ASSERT_KEEL_OK(keel_copy(stream, device, static_cast<char*>(results[rank]) + bytes,
                                   device, received, bytes));
          free(rank, received);
          ASSERT_KEEL_OK(keel_all_reduce(ranks.comm(rank), summed, summed, count, KEEL_FLOAT32,
                                         KEEL_SUM, stream));
          ASSERT_KEEL_OK(keel_copy(stream, device, results[rank], device, summed, bytes));
          free(rank, summed);
        }
        for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
          ASSERT_KEEL_OK(ranks.synchronize(rank));
          EXPECT_EQ(ranks.download(rank, results[rank], 2 * bytes),
                    sums(3, 0, count) + sent[(rank + 2) % 3]);
        }
      }
    }
  }
}

// Behind the gate a smaller block may begin where the freed one did: of a rank whose stream alone
// has work. |leader| is that rank.
TEST(CollectiveBuffers, AddressReusedBehindAGateServesBothCollectives) {
  uint32_t reused = 0;
  for (uint32_t round = 0; round < 12; ++round) {
    const bool staged = round % 2 != 0;
    const uint64_t first = round % 4 < 2 ? 1000 : 100'003;
    const uint32_t leader = round / 4;
    SCOPED_TRACE(std::string(staged ? "staged, " : "alias, ") + std::to_string(first) +
                 ", leader " + std::to_string(leader));
    const uint64_t second = first - 20;  // a block of the same size: the one freed last comes first
    Ranks ranks(3, staged);
    keel_gate gate = {};
    ASSERT_KEEL_OK(keel_gate_create(&gate));
    std::vector<void*> results;
    std::vector<std::string> sent;
    for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
      results.push_back(ranks.allocate(rank, (first + second) * sizeof(float)));
      sent.push_back(floats(rank, 0, first + second));
    }
    for (uint32_t i = 0; i < ranks.world(); ++i) {
      const uint32_t rank = (leader + i) % ranks.world();
      const keel_stream stream = ranks.stream(rank);
      const keel_device device = ranks.device(rank);
      ASSERT_KEEL_OK(keel_stream_wait_gate(stream, gate));
      void* before = nullptr;
      uint64_t done = 0;
      for (const uint64_t count : {first, second}) {
        const uint64_t bytes = count * sizeof(float);
        void* memory = nullptr;
        ASSERT_KEEL_OK(keel_alloc_on_stream(stream, bytes, &memory));
        if (memory == before) ++reused;
        before = memory;
        ASSERT_KEEL_OK(
            keel_copy(stream, device, memory, KEEL_HOST, sent[rank].data() + done, bytes));
        ASSERT_KEEL_OK(keel_all_reduce(ranks.comm(rank), memory, memory, count, KEEL_FLOAT32,
                                       KEEL_SUM, stream));
        ASSERT_KEEL_OK(keel_copy(stream, device, static_cast<char*>(results[rank]) + done, device,
                                 memory, bytes));
        ASSERT_KEEL_OK(keel_free_on_stream(stream, memory));
        done += bytes;
      }
    }
    ASSERT_KEEL_OK(keel_gate_open(gate, KEEL_OK, nullptr));
    for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
      ASSERT_KEEL_OK(ranks.synchronize(rank));
      EXPECT_TRUE(ranks.download(rank, results[rank], sent[rank].size()) ==
                  sums(3, 0, first + second))
          << rank;
    }
    EXPECT_KEEL_OK(keel_gate_destroy(gate));
  }
  EXPECT_GT(reused, 0u);
}

}  // namespace
