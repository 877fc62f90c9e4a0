// SPDX-License-Identifier: Apache-2.0
// Reductions of a processor's and a chip's buffer, run by the chip: results, conditions, and the
// state of both ranks when the chip fails half-way.
#include <chrono>
#include <thread>

#include "collectives/testing/reducing_pair.h"

namespace keel::testing {
namespace {

constexpr HostMemory kAllKinds[] = {HostMemory::kPinned, HostMemory::kRegistered};

class DeviceReductionTest : public ReducingPair {
 protected:
  static keel_device chip_with(Settings settings) {
    settings["devices"] = "1";
    return load("sim", settings).at(0);
  }
  static keel_comm_stats stats(const Rank& of) {
    auto stats = KEEL_STRUCT_INIT(keel_comm_stats, KEEL_STRUCT_COMM_STATS);
    EXPECT_KEEL_OK(keel_comm_stats_get(of.comm, &stats));
    return stats;
  }
  // Repeats |call| until the chip reduces; the host's threads reduce before.
  bool comes_to_the_device(const Call& call) {
    for (uint32_t turn = 0; turn < 64; ++turn) {
      check_floats(call, turn);
      if (HasFailure()) return false;
      if (reduced_by() == "device") return true;
    }
    return false;
  }
};

TEST_F(DeviceReductionTest, EveryBitIsRight) {
  const keel_device device = chip_with({});
  uint32_t seed = 0;
  for (const HostMemory kind : kAllKinds) {
    for (uint32_t cpu_rank : {0u, 1u}) {
      // The last chunk size gives many small windows.
      for (uint64_t chunk_bytes : {0, 262144, 4160}) {
        connect(device, 2 << 20, kind, kind, cpu_rank, chunk_bytes);
        for (uint64_t count : {65536, 65537, 100003, 300001}) {
          for (const bool in_place : {false, true}) {
            ++seed;
#if defined(__SANITIZE_THREAD__)
            if (seed % 3 != 0) continue;  // 4 s instead of 12
#endif
            check_floats({.count = count, .in_place = in_place, .offset = seed % 3 * 4}, seed);
            EXPECT_EQ(reduced_by(), "device") << count;
          }
        }
        disconnect();
      }
    }
  }
}

TEST_F(DeviceReductionTest, TellsOfItself) {
  connect(chip_with({}), 4 << 20, HostMemory::kPinned, HostMemory::kPinned, 1);
  check_floats({.count = 1 << 20}, 1);
  for (const Rank& of : ranks_) {
    const auto told = last(of);
    EXPECT_EQ(told["operation"], "all_reduce");
    EXPECT_EQ(told["path"], "bridge");
    EXPECT_EQ(told["reduced_by"], "device");
    EXPECT_EQ(told["bytes"], 4 << 20);
    EXPECT_EQ(told["steps"], 8);
    EXPECT_EQ(told["step_bytes"], 512 << 10);
    EXPECT_EQ(told["chunks_in_flight"], 8);
    EXPECT_EQ(told["shares"], nlohmann::json({1.0, 0.0}));
  }
  EXPECT_EQ(last(chip())["link_bytes"]["out"], 4 << 20);
  EXPECT_EQ(last(cpu())["link_bytes"]["out"], 0);
  EXPECT_GE(stats(chip()).bytes_to_host, 4u << 20);
  EXPECT_GE(stats(chip()).bytes_to_device, 4u << 20);
  EXPECT_EQ(stats(cpu()).bytes_in_place, 8u << 20);
}

TEST_F(DeviceReductionTest, WhatTheDeviceCannotDoTheHostDoes) {
  connect(chip_with({}), 4 << 20, HostMemory::kPinned, HostMemory::kPinned);
  constexpr uint64_t kCount = 200'001;
  check_floats({.count = kCount}, 1);
  EXPECT_EQ(reduced_by(), "device");
  // Too short, then a reduction other than a sum, then a dtype without a kernel; in between the
  // device.
  check_floats({.count = 20'000}, 2);
  EXPECT_EQ(reduced_by(), "host");
  const auto expect_host = [&](const Call& call, char wanted) {
    check_floats({.count = kCount}, 3);
    EXPECT_EQ(reduced_by(), "device");
    const uint64_t bytes = call.count * (call.dtype == KEEL_FLOAT32 ? 4 : 1);
    const auto found = results(call, {std::vector<char>(bytes, 1), std::vector<char>(bytes, 2)});
    EXPECT_EQ(reduced_by(), "host");
    for (const auto& each : found) EXPECT_EQ(each, std::vector<char>(bytes, wanted));
  };
  expect_host({.count = kCount, .reduction = KEEL_MAX}, 2);
  expect_host({.count = 3 * kCount, .dtype = KEEL_INT8}, 3);
  check_floats({.count = kCount}, 4);
  EXPECT_EQ(reduced_by(), "device");
}

TEST_F(DeviceReductionTest, BothBuffersHaveToBePinned) {
  for (uint32_t cpu_rank : {0u, 1u}) {
    for (const bool sends_pinned : {false, true}) {
      const auto kind = [](bool is_pinned) {
        return is_pinned ? HostMemory::kPinned : HostMemory::kArena;
      };
      // A new device without pinned memory, and memory that Keel will not pin during the test.
      connect(chip_with({}), 16 << 20, kind(sends_pinned), kind(!sends_pinned), cpu_rank);
      check_floats({.count = 100'003}, 1);
      EXPECT_EQ(reduced_by(), "host");
      // Alternates between both paths: each call decides anew.
      for (uint32_t turn = 0; turn < 4; ++turn) {
        check_floats({.count = 100'003, .in_place = sends_pinned}, 2 + turn);
        EXPECT_EQ(reduced_by(), sends_pinned ? "device" : "host");
        check_floats({.count = 100'003}, 10 + turn);
        EXPECT_EQ(reduced_by(), "host");
      }
      disconnect();
    }
  }
}

TEST_F(DeviceReductionTest, NarrowFloatsAreRoundedAsByTheHost) {
  const keel_device device = chip_with({});
  constexpr uint64_t kCount = 300'003;
  for (const keel_dtype dtype : {KEEL_FLOAT16, KEEL_BFLOAT16}) {
    // All finite codes, each paired with many codes.
    std::vector<char> values[2];
    uint32_t state = 1;
    for (std::vector<char>& each : values) {
      for (uint64_t i = 0; i < kCount; ++i) {
        state = state * 1664525u + 1013904223u;
        uint16_t code = static_cast<uint16_t>(state >> 11);
        const uint16_t exponent = dtype == KEEL_FLOAT16 ? 0x7c00 : 0x7f80;
        if ((code & exponent) == exponent) code = static_cast<uint16_t>(code & ~0x4000);
        each.push_back(static_cast<char>(code & 0xff));
        each.push_back(static_cast<char>(code >> 8));
      }
    }
    std::vector<std::vector<char>> found[2];
    for (const bool is_pinned : {false, true}) {
      const HostMemory kind = is_pinned ? HostMemory::kPinned : HostMemory::kArena;
      connect(device, 2 * kCount, kind, kind);
      found[is_pinned ? 1 : 0] = results({.count = kCount, .dtype = dtype}, values);
      EXPECT_EQ(reduced_by(), is_pinned ? "device" : "host");
      disconnect();
    }
    EXPECT_TRUE(found[0] == found[1]);
    EXPECT_TRUE(found[1][0] == found[1][1]);
  }
}

TEST_F(DeviceReductionTest, ArenasArePinnedOnceTheyHaveBeenUsed) {
  const keel_device device = chip_with({});
  for (int round = 0; round < 2; ++round) {
    connect(device, 3 << 20, HostMemory::kArena, HostMemory::kArena);
    // The host reduces for as long as pinning would take; then the device reduces any part of
    // the memory.
    const Call whole = {.count = (3 << 20) / sizeof(float)};
    check_floats(whole, 1);
    EXPECT_EQ(reduced_by(), "host");
    ASSERT_TRUE(comes_to_the_device(whole));
    check_floats({.count = 100'003, .in_place = true, .offset = 12}, 5);
    EXPECT_EQ(reduced_by(), "device");
    disconnect();
    // The plugin takes the memory back and hands it out again, unpinned.
    ASSERT_KEEL_OK(keel_memory_trim(cpu_));
  }
  // Shutdown must handle segments that are still pinned.
  connect(device, 4 << 20, HostMemory::kArena, HostMemory::kArena);
  ASSERT_TRUE(comes_to_the_device({.count = 1 << 20}));
}

TEST_F(DeviceReductionTest, TheCallerMayRegisterWhatKeelHasPinned) {
  const keel_device device = chip_with({});
  connect(device, 4 << 20, HostMemory::kArena, HostMemory::kArena);
  ASSERT_TRUE(comes_to_the_device({.count = 1 << 20}));
  EXPECT_KEEL_OK(keel_host_register(device, cpu().send, 4 << 20));
  EXPECT_KEEL_OK(keel_host_register(device, cpu().receive, 4 << 20));
  check_floats({.count = 1 << 20}, 1);
  EXPECT_EQ(reduced_by(), "device");
  EXPECT_KEEL_OK(keel_host_unregister(device, cpu().receive));
  check_floats({.count = 1 << 20}, 2);
  EXPECT_EQ(reduced_by(), "host") << "the segment is left to the caller";
  EXPECT_KEEL_OK(keel_host_unregister(device, cpu().send));
}

TEST_F(DeviceReductionTest, CpuMemoryIsNotUnregisteredBehindACollective) {
  connect(chip_with({}), 4 << 20, HostMemory::kRegistered, HostMemory::kRegistered);
  const Call call{.count = 1 << 20};
  ASSERT_KEEL_OK(enqueue(cpu(), call));
  EXPECT_EQ(keel_host_unregister(chip_, cpu().send), KEEL_FAILED_PRECONDITION);
  EXPECT_EQ(std::string(keel_last_error()).find("all_reduce of rank 0"), 0u) << keel_last_error();
  ASSERT_KEEL_OK(enqueue(chip(), call));
  EXPECT_KEEL_OK(keel_stream_synchronize(cpu().stream, kTestTimeout));
  EXPECT_KEEL_OK(keel_host_unregister(chip_, cpu().send));
  EXPECT_KEEL_OK(keel_host_register(chip_, cpu().send, 4 << 20));
  EXPECT_KEEL_OK(keel_stream_synchronize(chip().stream, kTestTimeout));
  EXPECT_EQ(reduced_by(), "device");
}

TEST_F(DeviceReductionTest, ManyInARow) {
  connect(chip_with({{"delay_us", "200"}}), 2 << 20, HostMemory::kPinned, HostMemory::kPinned, 1);
  constexpr uint64_t kCount = 70'001;
  const std::vector<char> values[2] = {floats(kCount, 1), floats(kCount, 2)};
  for (uint32_t rank = 0; rank < 2; ++rank) upload(ranks_[rank], ranks_[rank].send, values[rank]);
  // Each call after the first adds two equal sums.
  constexpr int kCalls = 12;
  const Call calls[] = {{.count = kCount}, {.count = kCount, .in_place = true}};
  for (int call = 0; call < kCalls; ++call) {
    for (const Rank& of : ranks_) ASSERT_KEEL_OK(enqueue(of, calls[call % 2]));
  }
  for (const Rank& of : ranks_) {
    const std::vector<char> found = download(of, of.receive, values[0].size());
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < kCount; ++i) {
      float sum = float_at(values[0], i) + float_at(values[1], i);
      for (int call = 1; call < kCalls - 1; call += 2) sum += sum;
      wrong += sum == float_at(found, i) ? 0 : 1;
    }
    EXPECT_EQ(wrong, 0u);
  }
  EXPECT_EQ(reduced_by(), "device");
}

TEST_F(DeviceReductionTest, AThreadARank) {
  connect(chip_with({}), 4 << 20, HostMemory::kPinned, HostMemory::kPinned);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    upload(ranks_[rank], ranks_[rank].send, floats(1 << 20, rank));
  }
  std::vector<std::thread> threads;
  for (const Rank& of : ranks_) {
    threads.emplace_back([&] {
      for (int call = 0; call < 8; ++call) {
        EXPECT_KEEL_OK(enqueue(of, {.count = 1 << 20}));
        EXPECT_KEEL_OK(keel_stream_synchronize(of.stream, kTestTimeout));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(download(cpu(), cpu().receive, 4 << 20) == download(chip(), chip().receive, 4 << 20));
  EXPECT_EQ(reduced_by(), "device");
}

TEST_F(DeviceReductionTest, UrgentOnesGoBetweenTheWindows) {
  connect(chip_with({}), 16 << 20, HostMemory::kPinned, HostMemory::kPinned);
  auto options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
  options.timeout_ns = kTestTimeout;
  options.priority = KEEL_COMM_URGENT;
  keel_comm normal[2];
  keel_comm urgent[2];
  keel_stream streams[2];
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      EXPECT_KEEL_OK(keel_comm_duplicate(ranks_[rank].comm, &options, &urgent[rank]));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint32_t rank = 0; rank < 2; ++rank) {
    normal[rank] = ranks_[rank].comm;
    streams[rank] = new_stream(ranks_[rank].device);
    upload(ranks_[rank], ranks_[rank].send, floats(4 << 20, rank));
  }
  // The urgent calls use the last MiB, which the normal calls leave alone.
  constexpr uint64_t kFirst = 15 << 20;
  for (const Rank& of : ranks_) {
    ASSERT_KEEL_OK(enqueue(of, {.count = kFirst / sizeof(float)}));
  }
  for (int call = 0; call < 4; ++call) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      ASSERT_KEEL_OK(keel_all_reduce(urgent[rank], ranks_[rank].send + kFirst,
                                     ranks_[rank].receive + kFirst, 262144, KEEL_FLOAT32, KEEL_SUM,
                                     streams[rank]));
    }
    for (const keel_stream stream : streams) {
      ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
    }
  }
  for (const Rank& of : ranks_) ASSERT_KEEL_OK(keel_stream_synchronize(of.stream, kTestTimeout));
  const auto of_cpu = download(cpu(), cpu().receive, 16 << 20);
  EXPECT_TRUE(of_cpu == download(chip(), chip().receive, 16 << 20));
  const auto first = floats(4 << 20, 0);
  const auto second = floats(4 << 20, 1);
  for (uint64_t i = 0; i < 4 << 20; i += 4093) {
    ASSERT_EQ(float_at(of_cpu, i), float_at(first, i) + float_at(second, i)) << i;
  }
  for (uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_KEEL_OK(keel_comm_destroy(urgent[rank]));
    EXPECT_KEEL_OK(keel_stream_destroy(streams[rank]));
  }
}

TEST_F(DeviceReductionTest, OnlyOfTwoRanksOfWhichOneIsStaged) {
  const keel_device device = chip_with({});
  auto options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
  options.timeout_ns = kTestTimeout;
  options.forbid_alias = 1;
  connect(device, 1 << 20, HostMemory::kPinned, HostMemory::kPinned, 0, options);
  check_floats({.count = 100'003}, 1);
  EXPECT_EQ(reduced_by(), "host");
}

// Three ranks; the chips share a native library, so two ranks meet in a lane.
TEST_F(DeviceReductionTest, BetweenIslandsToo) {
  constexpr uint64_t kBytes = 2 << 20;
  constexpr uint64_t kCount = kBytes / sizeof(float);
  const auto chips = load("sim", {{"devices", "2"}});
  const keel_device devices[] = {chips.at(0), chips.at(1), load("cpu", {{"devices", "1"}}).at(0)};
  auto options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
  options.timeout_ns = kTestTimeout;
  keel_comm comms[3];
  ASSERT_KEEL_OK(keel_comm_init_all(devices, 3, &options, comms));
  void* pinned[2];
  for (void*& each : pinned) {
    ASSERT_KEEL_OK(keel_alloc(devices[0], KEEL_MEMORY_PINNED, kBytes, &each));
    ASSERT_KEEL_OK(keel_host_register(devices[2], each, kBytes));
  }
  keel_stream streams[3];
  void* sends[3] = {alloc(devices[0], kBytes), alloc(devices[1], kBytes), pinned[0]};
  void* receives[3] = {alloc(devices[0], kBytes), alloc(devices[1], kBytes), pinned[1]};
  for (uint32_t rank = 0; rank < 3; ++rank) streams[rank] = new_stream(devices[rank]);
  std::vector<float> values(kCount);
  for (uint32_t turn = 1; turn < 4; ++turn) {
    for (uint32_t rank = 0; rank < 3; ++rank) {
      for (uint64_t i = 0; i < kCount; ++i) {
        values[i] = static_cast<float>(i % 1000) * static_cast<float>(turn + rank);
      }
      if (rank == 2) {
        std::memcpy(sends[rank], values.data(), kBytes);
        continue;
      }
      ASSERT_KEEL_OK(
          keel_copy(streams[rank], devices[rank], sends[rank], KEEL_HOST, values.data(), kBytes));
      ASSERT_KEEL_OK(keel_stream_synchronize(streams[rank], kTestTimeout));
    }
    for (uint32_t rank = 0; rank < 3; ++rank) {
      ASSERT_KEEL_OK(keel_all_reduce(comms[rank], sends[rank], receives[rank], kCount, KEEL_FLOAT32,
                                     KEEL_SUM, streams[rank]));
    }
    for (uint32_t rank = 0; rank < 3; ++rank) {
      if (rank != 2) {
        ASSERT_KEEL_OK(keel_copy(streams[rank], KEEL_HOST, values.data(), devices[rank],
                                 receives[rank], kBytes));
      }
      ASSERT_KEEL_OK(keel_stream_synchronize(streams[rank], kTestTimeout));
      if (rank == 2) std::memcpy(values.data(), receives[rank], kBytes);
      uint64_t wrong = 0;
      for (uint64_t i = 0; i < kCount; ++i) {
        const float wanted = static_cast<float>(i % 1000) * static_cast<float>(3 * turn + 3);
        wrong += values[i] == wanted ? 0 : 1;
      }
      EXPECT_EQ(wrong, 0u) << "rank " << rank << ", turn " << turn;
    }
  }
  auto told = KEEL_STRUCT_INIT(keel_comm_stats, KEEL_STRUCT_COMM_STATS);
  ASSERT_KEEL_OK(keel_comm_stats_get(comms[0], &told));
  EXPECT_EQ(told.native_operations, 3u);
  EXPECT_GE(told.bytes_to_host, 3 * kBytes);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_KEEL_OK(keel_comm_destroy(comms[rank]));
    EXPECT_KEEL_OK(keel_stream_destroy(streams[rank]));
    if (rank == 2) break;
    EXPECT_KEEL_OK(keel_free(devices[rank], sends[rank]));
    EXPECT_KEEL_OK(keel_free(devices[rank], receives[rank]));
  }
  for (void* each : pinned) {
    EXPECT_KEEL_OK(keel_host_unregister(devices[2], each));
    EXPECT_KEEL_OK(keel_free(devices[0], each));
  }
}

// ---- failures --------------------------------------------------------------------

TEST_F(DeviceReductionTest, WithoutMemoryForItTheHostSumsUp) {
  // The buffers and the stage's windows use up the device's memory.
  const keel_device device = chip_with({{"memory_mib", "16"}});
  connect(device, 6 << 20, HostMemory::kPinned, HostMemory::kPinned);
  for (uint32_t turn = 0; turn < 3; ++turn) {
    check_floats({.count = 100'003}, turn);
    EXPECT_EQ(reduced_by(), "host");
  }
}

TEST_F(DeviceReductionTest, WhateverFailsOnTheDeviceEndsItForBoth) {
  for (const char* fault : {"lose:copy@30", "fail:copy@30", "fail:op@3", "lose:op@3",
                            "refuse:copy@30", "refuse:op@3", "refuse:record@40"}) {
    SCOPED_TRACE(fault);
    connect(chip_with({{"faults", fault}}), 4 << 20, HostMemory::kPinned, HostMemory::kPinned);
    for (uint32_t rank = 0; rank < 2; ++rank) {
      upload(ranks_[rank], ranks_[rank].send, floats(1 << 20, rank));
    }
    // The first call fills staging windows in vain, so any call may have the failing copy.
    for (int call = 0; call < 4; ++call) {
      for (const Rank& of : ranks_) (void)enqueue(of, {.count = 1 << 20});
    }
    EXPECT_NE(keel_stream_synchronize(chip().stream, kTestTimeout), KEEL_OK);
    EXPECT_EQ(keel_stream_synchronize(cpu().stream, kTestTimeout),
              keel_comm_async_error(cpu().comm));
    EXPECT_NE(keel_comm_async_error(cpu().comm), KEEL_OK);
    EXPECT_NE(std::string(keel_last_error()).find("rank 1 (sim"), std::string::npos)
        << keel_last_error();
    // After the failure nothing writes to the buffer.
    std::memset(cpu().receive, 0x5a, 4 << 20);
    disconnect();
  }
}

TEST_F(DeviceReductionTest, ADeviceThatHangsIsNamedAtTheDeadline) {
  connect(chip_with({{"faults", "stall:copy@30=1500"}}), 4 << 20, HostMemory::kPinned,
          HostMemory::kPinned, 0, 0, kSecond);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    upload(ranks_[rank], ranks_[rank].send, floats(1 << 20, rank));
  }
  for (int call = 0; call < 2; ++call) {
    for (const Rank& of : ranks_) (void)enqueue(of, {.count = 1 << 20});
  }
  for (const Rank& of : ranks_) {
    EXPECT_EQ(keel_stream_synchronize(of.stream, kTestTimeout), KEEL_TIMED_OUT);
    EXPECT_EQ(keel_comm_async_error(of.comm), KEEL_TIMED_OUT);
    EXPECT_NE(std::string(keel_last_error()).find("rank 1 (sim"), std::string::npos)
        << keel_last_error();
  }
}

TEST_F(DeviceReductionTest, AnAbortLeavesTheBuffersToTheirCallers) {
  // A single queue runs work in the order of submission.
  connect(chip_with({{"faults", "stall:copy@30=300"}, {"single_queue", "1"}}), 4 << 20,
          HostMemory::kPinned, HostMemory::kPinned);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    upload(ranks_[rank], ranks_[rank].send, floats(1 << 20, rank));
  }
  for (const Rank& of : ranks_) ASSERT_KEEL_OK(enqueue(of, {.count = 1 << 20}));
  for (const Rank& of : ranks_) ASSERT_KEEL_OK(keel_stream_synchronize(of.stream, kTestTimeout));
  // In the second operation all windows have been enqueued, and one window hangs.
  const uint64_t before = stats(chip()).bytes_to_host;
  for (const Rank& of : ranks_) ASSERT_KEEL_OK(enqueue(of, {.count = 1 << 20}));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kTestTimeout);
  while (stats(chip()).bytes_to_host < before + (4 << 20)) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::yield();
  }
  ASSERT_KEEL_OK(keel_comm_abort(cpu().comm));
  EXPECT_EQ(keel_stream_synchronize(cpu().stream, kTestTimeout), KEEL_ABORTED);
  std::memset(cpu().receive, 0x5a, 4 << 20);
  EXPECT_EQ(keel_stream_synchronize(chip().stream, kTestTimeout), KEEL_ABORTED);
  (void)read(chip().device, chip().send, 1);
  EXPECT_TRUE(std::string(cpu().receive, 4 << 20) == std::string(4 << 20, 0x5a));
}

TEST_F(DeviceReductionTest, AMismatchLeavesItToTheNext) {
  connect(chip_with({}), 4 << 20, HostMemory::kPinned, HostMemory::kPinned);
  for (uint32_t turn = 0; turn < 2; ++turn) {
    ASSERT_KEEL_OK(enqueue(cpu(), {.count = 1 << 20}));
    ASSERT_KEEL_OK(enqueue(chip(), {.count = (1 << 20) - 1}));
    for (const Rank& of : ranks_) {
      EXPECT_EQ(keel_stream_synchronize(of.stream, kTestTimeout), KEEL_INVALID_ARGUMENT);
      EXPECT_KEEL_OK(keel_stream_recover(of.stream, kTestTimeout));
    }
    check_floats({.count = 100'001}, turn);
    EXPECT_EQ(reduced_by(), "device");
  }
}

}  // namespace
}  // namespace keel::testing
