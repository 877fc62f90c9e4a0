// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include <bit>
#include <cstdio>
#include <fstream>
#include <functional>
#include <keel/plugin_kit.hpp>
#include <optional>
#include <string>

#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

class MemoryTest : public KeelTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    KeelTest::SetUp();
    device_ = load(GetParam(), {{"devices", "1"}}).at(0);
  }
  keel_status find(const void* pointer, keel_memory_info* out_info) {
    *out_info = KEEL_STRUCT_INIT(keel_memory_info, KEEL_STRUCT_MEMORY_INFO);
    return keel_memory_find(device_, pointer, out_info);
  }
  keel_device device_ = {};
};

TEST_P(MemoryTest, FindsByInteriorPointer) {
  char* memory = static_cast<char*>(alloc(device_, 1000));
  keel_memory_info info;
  for (uint64_t offset : {0, 1, 999}) {
    ASSERT_KEEL_OK(find(memory + offset, &info));
    EXPECT_EQ(info.base, memory);
    EXPECT_EQ(info.size, 1000u);
    EXPECT_EQ(info.kind, static_cast<keel_memory_kind>(KEEL_MEMORY_DEVICE));
  }
  EXPECT_EQ(find(memory + 1000, &info), KEEL_NOT_FOUND);
  ASSERT_KEEL_OK(keel_free(device_, memory));
  EXPECT_EQ(find(memory, &info), KEEL_NOT_FOUND);
}

TEST_P(MemoryTest, AliasReachesTheSameBytes) {
  void* memory = alloc_filled(device_, {5, 6});
  keel_memory_info info;
  ASSERT_KEEL_OK(find(memory, &info));
  if (info.host_alias == nullptr) GTEST_SKIP() << GetParam() << " has no host alias here";
  EXPECT_EQ(static_cast<uint32_t*>(info.host_alias)[1], 6u);
  static_cast<uint32_t*>(info.host_alias)[1] = 7;
  EXPECT_EQ(read(device_, memory, 2), (std::vector<uint32_t>{5, 7}));
}

TEST_P(MemoryTest, NoBytesAreNull) {
  const keel_stream stream = new_stream(device_);
  for (const bool on_stream : {false, true}) {
    void* memory = &memory;
    ASSERT_KEEL_OK(on_stream ? keel_alloc_on_stream(stream, 0, &memory)
                             : keel_alloc(device_, KEEL_MEMORY_DEVICE, 0, &memory));
    EXPECT_EQ(memory, nullptr);
    const uint32_t pattern = 7;
    EXPECT_KEEL_OK(keel_fill(stream, memory, &pattern, 4, 0));
    EXPECT_KEEL_OK(keel_copy(stream, device_, memory, KEEL_HOST, nullptr, 0));
    EXPECT_KEEL_OK(keel_copy(stream, KEEL_HOST, nullptr, device_, memory, 0));
    EXPECT_KEEL_OK(on_stream ? keel_free_on_stream(stream, memory) : keel_free(device_, memory));
  }
  auto stats = KEEL_STRUCT_INIT(keel_memory_stats, KEEL_STRUCT_MEMORY_STATS);
  ASSERT_KEEL_OK(keel_memory_stats_get(device_, &stats));
  EXPECT_EQ(stats.live_blocks, 0u);
  EXPECT_EQ(stats.reserved, 0u);
  keel_comm comm = {};
  ASSERT_KEEL_OK(keel_comm_init_all(&device_, 1, nullptr, &comm));
  EXPECT_KEEL_OK(keel_all_reduce(comm, nullptr, nullptr, 0, KEEL_FLOAT32, KEEL_SUM, stream));
  EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  EXPECT_KEEL_OK(keel_comm_destroy(comm));
}

TEST_P(MemoryTest, NoBytesAreNotRegistered) {
  auto info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
  ASSERT_KEEL_OK(keel_device_info_get(device_, &info));
  if ((info.capabilities & KEEL_CAPABILITY_HOST_REGISTER) == 0) {
    GTEST_SKIP() << GetParam() << " registers no host memory";
  }
  int on_the_stack = 0;
  EXPECT_KEEL_OK(keel_host_register(device_, &on_the_stack, 0));
  EXPECT_KEEL_OK(keel_host_register(device_, nullptr, 0));
  EXPECT_EQ(keel_host_unregister(device_, &on_the_stack), KEEL_INVALID_ARGUMENT);
}

TEST_P(MemoryTest, RefusesWrongSizesAndPointers) {
  void* memory = nullptr;
  EXPECT_EQ(keel_alloc(device_, 77, 16, &memory), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(keel_alloc(device_, 77, 0, &memory), KEEL_INVALID_ARGUMENT);
  for (uint64_t size : {UINT64_MAX, UINT64_MAX - 4095, UINT64_MAX / 2}) {
    EXPECT_EQ(keel_alloc(device_, KEEL_MEMORY_DEVICE, size, &memory), KEEL_OUT_OF_MEMORY);
  }
  memory = alloc(device_, 64);
  EXPECT_EQ(keel_free(device_, static_cast<char*>(memory) + 8), KEEL_INVALID_ARGUMENT);
  EXPECT_KEEL_OK(keel_free(device_, nullptr));
  EXPECT_KEEL_OK(keel_free(device_, memory));
  EXPECT_EQ(keel_free(device_, memory), KEEL_INVALID_ARGUMENT);
  int on_the_stack = 0;
  EXPECT_EQ(keel_free(device_, &on_the_stack), KEEL_INVALID_ARGUMENT);
}

TEST_P(MemoryTest, BlocksBehindAClosedGateAreNotReused) {
  const keel_stream stream = new_stream(device_);
  keel_gate gate = {};
  ASSERT_KEEL_OK(keel_gate_create(&gate));
  void* memory = alloc_filled(device_, {1});
  ASSERT_KEEL_OK(keel_stream_wait_gate(stream, gate));
  ASSERT_KEEL_OK(fill(stream, memory, 2, 1));
  ASSERT_KEEL_OK(keel_free(device_, memory));
  void* fresh = alloc_filled(device_, {3});
  EXPECT_NE(fresh, memory);
  ASSERT_KEEL_OK(keel_gate_open(gate, KEEL_OK, nullptr));
  ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  EXPECT_EQ(read(device_, fresh, 1), std::vector<uint32_t>{3});
  EXPECT_EQ(alloc(device_, 4), memory) << "it is free by now";
}

// Work behind a closed gate, whose memory is freed before the gate opens.
class FreedBehindGateTest : public MemoryTest {
 protected:
  // Reads two floats at |memory| and writes two at |result|.
  using Work = std::function<keel_status(keel_stream stream, void* memory, void* result)>;

  static uint32_t bits(float value) { return std::bit_cast<uint32_t>(value); }
  void expect_result(const Work& work, const std::vector<uint32_t>& wanted) {
    for (const bool on_stream : {false, true}) {
      SCOPED_TRACE(on_stream ? "keel_free_on_stream" : "keel_free");
      const keel_stream stream = new_stream(device_);
      keel_gate gate = {};
      ASSERT_KEEL_OK(keel_gate_create(&gate));
      void* const memory = alloc_filled(device_, {bits(3), bits(5)});
      void* const result = alloc_filled(device_, {0, 0});
      ASSERT_KEEL_OK(keel_stream_wait_gate(stream, gate));
      ASSERT_KEEL_OK(work(stream, memory, result));
      ASSERT_KEEL_OK(on_stream ? keel_free_on_stream(stream, memory) : keel_free(device_, memory));
      void* const fresh = alloc_filled(device_, {8, 9});
      EXPECT_NE(fresh, memory);
      ASSERT_KEEL_OK(keel_gate_open(gate, KEEL_OK, nullptr));
      EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
      EXPECT_EQ(read(device_, result, 2), wanted);
      EXPECT_EQ(read(device_, fresh, 2), (std::vector<uint32_t>{8, 9}));
      EXPECT_KEEL_OK(keel_free(device_, fresh));
      EXPECT_KEEL_OK(keel_free(device_, result));
      EXPECT_KEEL_OK(keel_gate_destroy(gate));
      EXPECT_KEEL_OK(keel_stream_destroy(stream));
    }
  }
};

TEST_P(FreedBehindGateTest, CopyReadsAndWritesMemory) {
  const std::vector<uint32_t> wanted = {bits(3), bits(5)};
  expect_result(
      [&](keel_stream stream, void* memory, void* result) {
        return keel_copy(stream, device_, result, device_, memory, 8);
      },
      wanted);
  // By way of the host, into the freed memory and out of it.
  const std::vector<uint32_t> other = {70, 71};
  expect_result(
      [&](keel_stream stream, void* memory, void* result) {
        const keel_status in = keel_copy(stream, device_, memory, KEEL_HOST, other.data(), 8);
        return in != KEEL_OK ? in : keel_copy(stream, device_, result, device_, memory, 8);
      },
      other);
  std::vector<uint32_t> on_host(2);
  expect_result(
      [&](keel_stream stream, void* memory, void*) {
        return keel_copy(stream, KEEL_HOST, on_host.data(), device_, memory, 8);
      },
      {0, 0});
  EXPECT_EQ(on_host, wanted);
}

TEST_P(FreedBehindGateTest, OperatorReadsAndWritesMemory) {
  if (std::string(GetParam()) != "cpu") load("cpu", {{"devices", "1"}});  // for its kernels
  expect_result(
      [&](keel_stream stream, void* memory, void* result) {
        const keel_tensor in = kit::make_tensor(memory, KEEL_FLOAT32, {2});
        const keel_tensor out = kit::make_tensor(result, KEEL_FLOAT32, {2});
        const keel_tensor* const inputs[] = {&in, &in};
        const keel_tensor* outputs[] = {&in};
        auto call = KEEL_STRUCT_INIT(keel_op_call, KEEL_STRUCT_OP_CALL);
        call.op = KEEL_OP_ADD;
        call.inputs = inputs;
        call.input_count = 2;
        call.outputs = outputs;
        call.output_count = 1;
        // In place in the freed memory, and from there to the result.
        const keel_status in_place = keel_op_run(stream, &call);
        outputs[0] = &out;
        return in_place != KEEL_OK ? in_place : keel_op_run(stream, &call);
      },
      {bits(12), bits(20)});
}

// A world of one rank: a copy, and an operation with arithmetic.
TEST_P(FreedBehindGateTest, CollectiveOfOneRankReadsAndWritesMemory) {
  keel_comm comm = {};
  ASSERT_KEEL_OK(keel_comm_init_all(&device_, 1, nullptr, &comm));
  keel_reduction twice = 0;
  ASSERT_KEEL_OK(keel_premul_sum_create(comm, 2, &twice));
  const auto reduce = [&](const void* from, void* to, keel_reduction reduction,
                          keel_stream stream) {
    return keel_all_reduce(comm, from, to, 2, KEEL_FLOAT32, reduction, stream);
  };
  expect_result([&](keel_stream stream, void* memory,
                    void* result) { return reduce(memory, result, KEEL_SUM, stream); },
                {bits(3), bits(5)});
  expect_result(
      [&](keel_stream stream, void* memory, void* result) {
        const keel_status in_place = reduce(memory, memory, twice, stream);
        return in_place != KEEL_OK ? in_place : reduce(memory, result, twice, stream);
      },
      {bits(12), bits(20)});
  EXPECT_KEEL_OK(keel_comm_destroy(comm));
}

INSTANTIATE_TEST_SUITE_P(Backends, FreedBehindGateTest,
                         ::testing::Values("cpu", "sim", "fake", "fake_polled"),
                         [](const auto& info) { return std::string(info.param); });
INSTANTIATE_TEST_SUITE_P(Backends, MemoryTest,
                         ::testing::Values("cpu", "sim", "fake", "fake_polled"),
                         [](const auto& info) { return std::string(info.param); });

// Sums of a mapping's counters in /proc/self/smaps, in bytes.
struct Pages {
  uint64_t resident = 0;
  uint64_t huge = 0;
};
Pages pages_at(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  Pages pages;
  bool is_there = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    uint64_t kib = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      is_there = begin <= wanted && wanted < end;
    } else if (is_there && std::sscanf(line.c_str(), "Rss: %lu kB", &kib) == 1) {
      pages.resident += kib << 10;
    } else if (is_there && std::sscanf(line.c_str(), "AnonHugePages: %lu kB", &kib) == 1) {
      pages.huge += kib << 10;
    }
  }
  return pages;
}

// Memory of the caller, registered with a CPU device.
class RegisteredPagesTest : public KeelTest {
 protected:
  static constexpr uint64_t kHugePage = 2 << 20;
  static constexpr uint64_t kBytes = 4 * kHugePage;

  void SetUp() override {
    KeelTest::SetUp();
    // A neighbour with the same rights would share the mapping's entry in smaps.
    room_ = mmap(nullptr, kBytes + 2 * kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(room_, MAP_FAILED);
    memory_ =
        static_cast<char*>(room_) + kHugePage + -reinterpret_cast<uintptr_t>(room_) % kHugePage;
    ASSERT_EQ(mprotect(memory_, kBytes - kHugePage, PROT_READ | PROT_WRITE), 0);
  }
  void TearDown() override {
    EXPECT_EQ(munmap(room_, kBytes + 2 * kHugePage), 0);
    KeelTest::TearDown();
  }
  Pages registered(const Settings& settings) {
    const keel_device device = load("cpu", settings).at(0);
    EXPECT_KEEL_OK(keel_host_register(device, memory_, kBytes - kHugePage));
    const Pages pages = pages_at(memory_);
    EXPECT_KEEL_OK(keel_host_unregister(device, memory_));
    return pages;
  }

  void* room_ = nullptr;
  char* memory_ = nullptr;
};

TEST_F(RegisteredPagesTest, StayAsTheyAreUnlessAskedFor) {
  const Pages pages = registered({{"devices", "1"}});
  EXPECT_EQ(pages.resident, 0u) << "nothing has touched the memory";
  EXPECT_EQ(pages.huge, 0u);
}

TEST_F(RegisteredPagesTest, AreHugeOnRequest) {
  const Pages pages = registered({{"devices", "1"}, {"register_huge_pages", "1"}});
  memory_[0] = 1;
  if (madvise(memory_, kHugePage, 25 /* MADV_COLLAPSE */) != 0) {
    GTEST_SKIP() << "the kernel gives no huge pages";
  }
  EXPECT_EQ(pages.huge, kBytes - kHugePage);
}

using FakeMemoryTest = KeelTest;

// A failed stream may still run its earlier work, whatever the failure: the loss of one rank's
// device is also reported to streams of ranks with intact devices.
TEST_F(FakeMemoryTest, BlocksOfAFailedStreamAreNotReusedEarly) {
  const keel_device device = load("fake").at(0);
  for (const keel_status code : {KEEL_ABORTED, KEEL_DEVICE_LOST}) {
    const keel_stream stream = new_stream(device);
    keel_gate gate = {};
    ASSERT_KEEL_OK(keel_gate_create(&gate));
    void* memory = alloc_filled(device, {1});
    void* fresh = nullptr;
    {
      FakePause pause;
      ASSERT_KEEL_OK(fill(stream, memory, 2, 1));
      ASSERT_KEEL_OK(keel_stream_wait_gate(stream, gate));
      ASSERT_KEEL_OK(keel_gate_open(gate, code, "given up"));
      EXPECT_EQ(keel_stream_synchronize(stream, 0), KEEL_TIMED_OUT) << "the fill still runs";
      ASSERT_KEEL_OK(keel_free(device, memory));
      fresh = alloc(device, 4);
      EXPECT_NE(fresh, memory) << code;
    }
    EXPECT_EQ(keel_stream_synchronize(stream, kTestTimeout), code);
  }
}

TEST_F(FakeMemoryTest, RecoversFromOutOfMemory) {
  const keel_device device = load("fake", {{"memory", "1048576"}}).at(0);
  void* half = alloc(device, 1 << 19);
  void* other = alloc(device, 1 << 19);
  void* more = nullptr;
  EXPECT_EQ(keel_alloc(device, KEEL_MEMORY_DEVICE, 4096, &more), KEEL_OUT_OF_MEMORY);
  ASSERT_KEEL_OK(keel_free(device, half));
  // Another size: only returning the cached block to the plugin makes room.
  EXPECT_KEEL_OK(keel_alloc(device, KEEL_MEMORY_DEVICE, 4096, &more));
  ASSERT_KEEL_OK(keel_free(device, more));
  ASSERT_KEEL_OK(keel_free(device, other));
  ASSERT_KEEL_OK(keel_memory_trim(device));
  EXPECT_KEEL_OK(keel_alloc(device, KEEL_MEMORY_DEVICE, 1 << 20, &more));
}

// At shutdown, each device's freed blocks still refer to work of the other device.
TEST_F(FakeMemoryTest, FreedBlocksOfTwoDevicesAtShutdown) {
  const keel_device a = load("fake").at(0);
  const keel_device b = load("cpu").at(0);
  for (int i = 0; i < 2; ++i) {
    const keel_stream on_a = new_stream(a);
    const keel_stream on_b = new_stream(b);
    void* memory_a = alloc(a, 4);
    void* memory_b = alloc(b, 4);
    ASSERT_KEEL_OK(fill(on_a, memory_a, 1, 1));
    ASSERT_KEEL_OK(fill(on_b, memory_b, 1, 1));
    ASSERT_KEEL_OK(keel_free(a, memory_a));
    ASSERT_KEEL_OK(keel_free(b, memory_b));
  }
}

}  // namespace
}  // namespace keel::testing
